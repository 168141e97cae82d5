// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/wallclock.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "bench/live/client.hpp"
#include "bench/live/findings.hpp"
#include "engine/simulate/report_chart.hpp"
#include "engine/simulate/report_layout.hpp"

namespace cairn::paper {
namespace {

using bench::Tokens;
using Clock = std::chrono::steady_clock;

// A prompt that is timed once in every round, the fastest counts.
struct Probe {
  int tokens = 0;  // recomputed
  enum class Kind { leaves, resumes, whole } kind = Kind::leaves;
  bench::Reply best{};
  bool timed = false;
};

class Requests {
 public:
  explicit Requests(const WallclockOptions& options) : metrics_(std::make_shared<Metrics>()) {
    EngineOptions engine;
    engine.model = options.model;
    engine.threads = options.threads;
    engine.policy = "last";  // states at ends alone, so that what is recomputed is known
    engine.cache_bytes = std::uint64_t{4} << 30;
    engine_ = make_engine(std::move(engine), metrics_);
    document_ = fresh(options.document);
    // Its end is kept; weights and buffers are touched.
    bench::ask(*engine_, bench::greedy(document_, 1));
  }

  /// With other tokens after the shared ones each time, so that nothing more of it is cached.
  void time(Probe& probe) {
    constexpr int kTail = 4;  // of a request that leaves the document early
    const std::span<const std::int32_t> shared(document_);
    GenerateRequest request;
    switch (probe.kind) {
      case Probe::Kind::leaves:
        request = bench::greedy(
            bench::joined(shared.first(static_cast<std::size_t>(probe.tokens - kTail)),
                          fresh(kTail)),
            1);
        break;
      case Probe::Kind::resumes:
        request = bench::greedy(bench::joined(shared, fresh(probe.tokens)), 1);
        break;
      case Probe::Kind::whole:
        request = bench::greedy(fresh(probe.tokens), 1);
        request.use_cache = false;
        break;
    }
    bench::Reply reply = bench::ask(*engine_, std::move(request));
    const bool faster =
        !probe.timed || reply.usage.first_token_seconds < probe.best.usage.first_token_seconds;
    if (faster) probe.best = std::move(reply);
    probe.timed = true;
  }

  double mean_restore_seconds() const {
    const auto restores = metrics_->state_restore_seconds();
    return restores.count() == 0 ? 0 : restores.sum() / static_cast<double>(restores.count());
  }
  std::string machine() const {
    const EngineInfo& info = engine_->info();
    return info.shape + ", " + std::to_string(info.threads) + " threads, " + info.isa + ", " +
           info.weights;
  }

 private:
  Tokens fresh(int count) {
    return bench::random_tokens(*engine_, random_, static_cast<std::size_t>(count));
  }

  std::mt19937_64 random_{1};
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Engine> engine_;
  Tokens document_;
};

std::vector<Probe> probes_of(const WallclockOptions& options) {
  constexpr int kEveryWhole = 8;
  std::vector<Probe> out;
  for (int i = 0; i < options.points; ++i) {
    const int tokens = 8 + i * (options.document - 16) / options.points;
    out.push_back({tokens, i % 2 == 0 ? Probe::Kind::leaves : Probe::Kind::resumes});
    if (i % kEveryWhole == 0) out.push_back({options.document, Probe::Kind::whole});
  }
  return out;
}

// Rounds over all probes, each in another order, so that a slow minute of the machine neither falls
// on neighbours nor on one probe's every turn.
void time_all(Requests& requests, const WallclockOptions& options, std::vector<Probe>& probes) {
  std::mt19937_64 random(2);
  const auto start = Clock::now();
  std::vector<Probe*> order;
  for (Probe& probe : probes) order.push_back(&probe);
  for (int round = 0; round < options.repeats; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (Probe* probe : order) {
      const std::chrono::duration<double> spent = Clock::now() - start;
      if (spent.count() > options.seconds) return;
      requests.time(*probe);
    }
  }
}

// Mean distance of the points that resumed from the line of those that did not.
double mean_excess(std::span<const TimedPoint> resumed, const LineFit& cold) {
  double sum = 0;
  for (const TimedPoint& p : resumed) {
    sum += p.seconds - cold.intercept - cold.slope * p.recomputed;
  }
  return resumed.empty() ? 0 : sum / static_cast<double>(resumed.size());
}

}  // namespace

LineFit fit_line(std::span<const TimedPoint> points) {
  const auto n = static_cast<double>(points.size());
  double mean_x = 0, mean_y = 0;
  for (const TimedPoint& p : points) {
    mean_x += p.recomputed / n;
    mean_y += p.seconds / n;
  }
  double xx = 0, xy = 0, yy = 0;
  for (const TimedPoint& p : points) {
    xx += (p.recomputed - mean_x) * (p.recomputed - mean_x);
    xy += (p.recomputed - mean_x) * (p.seconds - mean_y);
    yy += (p.seconds - mean_y) * (p.seconds - mean_y);
  }
  if (!(xx > 0)) return {};
  LineFit fit;
  fit.slope = xy / xx;
  fit.intercept = mean_y - fit.slope * mean_x;
  fit.r2 = yy > 0 ? xy * xy / (xx * yy) : 1;
  return fit;
}

Wallclock measure_wallclock(const WallclockOptions& options) {
  Requests requests(options);
  std::vector<Probe> probes = probes_of(options);
  time_all(requests, options, probes);
  Wallclock out;
  out.machine = requests.machine();
  out.restore_seconds = requests.mean_restore_seconds();
  std::vector<TimedPoint> cold, resumed;
  std::vector<double> rates;
  for (const Probe& probe : probes) {
    if (!probe.timed) continue;
    const Usage& usage = probe.best.usage;
    const TimedPoint point{static_cast<double>(probe.best.computed()),
                           static_cast<double>(usage.cached_tokens), usage.first_token_seconds};
    if (probe.kind == Probe::Kind::whole) {
      rates.push_back(point.recomputed / point.seconds);
      continue;
    }
    out.points.push_back(point);
    (point.cached > 0 ? resumed : cold).push_back(point);
  }
  // The best of all of them would have had more turns than any point.
  out.prefill_rate = bench::median(std::move(rates));
  out.fit = fit_line(out.points);
  out.load_seconds = mean_excess(resumed, fit_line(cold));
  return out;
}

std::string to_markdown(const Wallclock& r) {
  const double expected = r.prefill_rate > 0 ? 1 / r.prefill_rate : 0;
  const auto resumed = std::count_if(r.points.begin(), r.points.end(),
                                     [](const TimedPoint& p) { return p.cached > 0; });
  std::string out = "### Seconds on the engine\n\n" + r.machine + "; " +
                    std::to_string(r.points.size()) + " requests, of which " +
                    std::to_string(resumed) +
                    " resumed from a state; the fastest of several runs each.\n\n| | |\n|--|--|\n";
  const auto row = [&](const char* name, const std::string& value) {
    out += std::string("| ") + name + " | " + value + " |\n";
  };
  row("prefill rate without the cache, tokens/s", engine::fixed(r.prefill_rate, 1));
  row("slope, ms a token recomputed", engine::fixed(1e3 * r.fit.slope, 3));
  row("1 / prefill rate, ms", engine::fixed(1e3 * expected, 3));
  row("slope x prefill rate", engine::fixed(r.fit.slope * r.prefill_rate, 3));
  row("intercept, ms", engine::fixed(1e3 * r.fit.intercept, 1));
  row("R^2", engine::fixed(r.fit.r2, 4));
  row("load overhead of a resumed request, ms", engine::fixed(1e3 * r.load_seconds, 1));
  row("of that, copying the state in, ms", engine::fixed(1e3 * r.restore_seconds, 1));
  return out + "\n";
}

std::string to_svg(const Wallclock& r) {
  engine::Chart chart;
  chart.title = "Time to the first token over tokens recomputed";
  chart.x_label = "tokens recomputed";
  chart.y_label = "seconds";
  const auto add = [&](const char* name, bool resumed) {
    engine::ChartLine line{name, {}, false};
    for (const TimedPoint& p : r.points) {
      if ((p.cached > 0) == resumed) line.points.emplace_back(p.recomputed, p.seconds);
    }
    std::sort(line.points.begin(), line.points.end());
    chart.lines.push_back(std::move(line));
  };
  add("no state found", false);
  add("resumed", true);
  engine::ChartLine fit{"least squares", {}, true};
  for (const auto& line : chart.lines) {
    for (const auto& point : line.points) {
      fit.points.emplace_back(point.first, r.fit.intercept + r.fit.slope * point.first);
    }
  }
  std::sort(fit.points.begin(), fit.points.end());
  chart.lines.push_back(std::move(fit));
  return engine::render_chart(chart) + "\n";
}

}  // namespace cairn::paper
