// SPDX-License-Identifier: Apache-2.0
#include "metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "base/check.hpp"
#include "metrics/process.hpp"
#include "metrics/table.hpp"

namespace cairn {
namespace metrics {

void Counter::add(double by) const noexcept {
  if (cell_ && by > 0) cell_->Increment(by);
}
double Counter::value() const noexcept { return cell_ ? cell_->Value() : 0; }

void Gauge::set(double value) const noexcept {
  if (cell_ && !std::isnan(value)) cell_->Set(value);
}
double Gauge::value() const noexcept { return cell_ ? cell_->Value() : 0; }

void Histogram::observe(double value) const noexcept try {
  if (cell_ && !std::isnan(value)) cell_->Observe(value < 0 ? 0 : value);
} catch (...) {
  // A lock that cannot be had: a lost sample, never a lost request.
}
std::uint64_t Histogram::count() const noexcept try {
  return cell_ ? cell_->Collect().histogram.sample_count : 0;
} catch (...) {
  return 0;
}
double Histogram::sum() const noexcept try {
  return cell_ ? cell_->Collect().histogram.sample_sum : 0;
} catch (...) {
  return 0;
}

}  // namespace metrics

namespace {

using metrics::Kind;
using metrics::Row;

// The series of one row; index = first label * stride + second label.
struct Series {
  Kind kind = Kind::counter;
  std::size_t stride = 1;
  std::vector<void*> cells;
};

prometheus::Labels labels_of(const Row& row, std::size_t first, std::size_t second) {
  prometheus::Labels labels;
  if (!row.labels.empty())
    labels.emplace(row.labels[0].name, std::string(row.labels[0].values[first]));
  if (row.labels.size() > 1)
    labels.emplace(row.labels[1].name, std::string(row.labels[1].values[second]));
  return labels;
}

template <class Builder, class... Extra>
Series register_row(prometheus::Registry& registry, const Row& row, Builder builder,
                    const Extra&... extra) {
  auto& family =
      builder.Name("cairn_" + std::string(row.name)).Help(std::string(row.help)).Register(registry);
  const std::size_t outer = row.labels.empty() ? 1 : row.labels[0].values.size();
  const std::size_t inner = row.labels.size() < 2 ? 1 : row.labels[1].values.size();
  Series series{row.kind, inner, {}};
  for (std::size_t i = 0; i < outer; ++i)
    for (std::size_t j = 0; j < inner; ++j)
      series.cells.push_back(&family.Add(labels_of(row, i, j), extra...));
  return series;
}

Series register_row(prometheus::Registry& registry, const Row& row) {
  switch (row.kind) {
    case Kind::counter:
      return register_row(registry, row, prometheus::BuildCounter());
    case Kind::gauge:
      return register_row(registry, row, prometheus::BuildGauge());
    case Kind::histogram:
      break;
  }
  const prometheus::Histogram::BucketBoundaries bounds(row.buckets.begin(), row.buckets.end());
  return register_row(registry, row, prometheus::BuildHistogram(), bounds);
}

void append_process(std::vector<prometheus::MetricFamily>& families) {
  for (const auto& sample : metrics::sample_process()) {
    prometheus::MetricFamily family;
    family.name = sample.name;
    family.help = sample.help;
    family.type = sample.counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    prometheus::ClientMetric metric;
    (sample.counter ? metric.counter.value : metric.gauge.value) = sample.value;
    family.metric.push_back(std::move(metric));
    families.push_back(std::move(family));
  }
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::vector<Series> series;
  std::mutex info_mutex;
  std::map<std::string, bool> infos;

  void set_info(const std::string& name, const std::string& help, prometheus::Labels labels) {
    const std::lock_guard lock(info_mutex);
    if (!infos.emplace(name, true).second) return;
    prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels).Set(1);
  }

  void* cell(metrics::Id id, Kind kind, std::size_t first, std::size_t second) const noexcept {
    const auto index = static_cast<std::size_t>(id);
    if (index >= series.size()) return nullptr;
    const Series& row = series[index];
    const std::size_t at = first * row.stride + second;
    return row.kind == kind && second < row.stride && at < row.cells.size() ? row.cells[at]
                                                                            : nullptr;
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  for (const Row& row : metrics::table()) {
    check(static_cast<std::size_t>(row.id) == impl_->series.size(), "metric table out of order");
    impl_->series.push_back(register_row(impl_->registry, row));
  }
}
Metrics::~Metrics() = default;

Metrics::Counter Metrics::counter(metrics::Id id, std::size_t first,
                                  std::size_t second) const noexcept {
  return Counter(static_cast<prometheus::Counter*>(impl_->cell(id, Kind::counter, first, second)));
}
Metrics::Gauge Metrics::gauge(metrics::Id id, std::size_t first,
                              std::size_t second) const noexcept {
  return Gauge(static_cast<prometheus::Gauge*>(impl_->cell(id, Kind::gauge, first, second)));
}
Metrics::Histogram Metrics::histogram(metrics::Id id, std::size_t first) const noexcept {
  return Histogram(static_cast<prometheus::Histogram*>(impl_->cell(id, Kind::histogram, first, 0)));
}

void Metrics::set_build_info(std::string_view version, std::string_view backend,
                             std::string_view isa) noexcept try {
  impl_->set_info("cairn_build_info", "Version, device and instruction set.",
                  {{"version", std::string(version)},
                   {"backend", std::string(backend)},
                   {"isa", std::string(isa)}});
} catch (...) {
}

void Metrics::set_model_info(std::string_view name, std::string_view shape) noexcept try {
  impl_->set_info("cairn_model_info", "The model that is served.",
                  {{"model", std::string(name)}, {"shape", std::string(shape)}});
} catch (...) {
}

void Metrics::set_cache_config_info(std::int32_t grain, std::uint64_t cache_bytes,
                                    std::string_view policy, std::string_view kv) noexcept try {
  impl_->set_info("cairn_cache_config_info", "How the prefix cache was set up.",
                  {{"grain", std::to_string(grain)},
                   {"cache_bytes", std::to_string(cache_bytes)},
                   {"policy", std::string(policy)},
                   {"kv", std::string(kv)}});
} catch (...) {
}

std::string Metrics::render() const {
  auto families = impl_->registry.Collect();
  append_process(families);
  return prometheus::TextSerializer().Serialize(families);
}

std::string_view Metrics::content_type() noexcept {
  return "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace cairn
