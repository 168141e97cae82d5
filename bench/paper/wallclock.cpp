// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/wallclock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <random>
#include <utility>

#include "base/check.hpp"
#include "engine/engine.hpp"
#include "engine/simulate/report_chart.hpp"
#include "engine/simulate/report_layout.hpp"

namespace cairn::paper {
namespace {

using Tokens = std::vector<std::int32_t>;
using Clock = std::chrono::steady_clock;

class Requests {
 public:
  explicit Requests(const WallclockOptions& options) : rng_(1), repeats_(options.repeats) {
    EngineOptions engine;
    engine.model = options.model;
    engine.threads = options.threads;
    engine.policy = "last";  // states at ends alone, so that what is recomputed is known
    engine.cache_bytes = std::uint64_t{4} << 30;
    engine_ = make_engine(std::move(engine));
  }

  Tokens random_tokens(int count) {
    Tokens out;
    const auto ids = static_cast<std::uint64_t>(engine_->info().vocab_size);
    for (int i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(rng_() % ids));
    return out;
  }

  TimedPoint run(Tokens prompt, bool use_cache) {
    std::promise<Usage> done;
    GenerateRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = 1;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    request.use_cache = use_cache;
    const auto id = engine_->submit(std::move(request), [&done](Event event) {
      if (auto* finished = std::get_if<Finished>(&event)) done.set_value(finished->usage);
      if (auto* failed = std::get_if<Failed>(&event)) {
        done.set_exception(std::make_exception_ptr(LoadError(failed->error.message)));
      }
    });
    if (!id) throw LoadError(id.error().message);
    const Usage usage = done.get_future().get();
    return {static_cast<double>(usage.prompt_tokens - usage.cached_tokens),
            static_cast<double>(usage.cached_tokens), usage.first_token_seconds};
  }

  /// A request each time: with `fresh` other tokens after the shared ones, so that nothing more of
  /// it is cached.
  TimedPoint fastest(std::span<const std::int32_t> shared, int fresh, bool use_cache) {
    TimedPoint best;
    for (int i = 0; i < repeats_; ++i) {
      Tokens prompt(shared.begin(), shared.end());
      const Tokens tail = random_tokens(fresh);
      prompt.insert(prompt.end(), tail.begin(), tail.end());
      const TimedPoint point = run(std::move(prompt), use_cache);
      if (i == 0 || point.seconds < best.seconds) best = point;
    }
    return best;
  }

  std::string machine() const {
    const EngineInfo& info = engine_->info();
    return info.shape + ", " + std::to_string(info.threads) + " threads, " + info.isa + ", " +
           info.weights;
  }

 private:
  std::mt19937_64 rng_;
  int repeats_;
  std::unique_ptr<Engine> engine_;
};

/// 0 to n - 1 so that every beginning of it is spread over the whole: a golden-ratio walk.
std::vector<int> spread_order(int n) {
  std::vector<std::pair<double, int>> keys;
  for (int i = 0; i < n; ++i) keys.emplace_back(std::fmod(i * 0.6180339887498949, 1.0), i);
  std::sort(keys.begin(), keys.end());
  std::vector<int> order;
  for (const auto& [key, i] : keys) order.push_back(i);
  return order;
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
  Wallclock out;
  out.machine = requests.machine();
  const Tokens document = requests.random_tokens(options.document);
  requests.run(document, true);  // its end is kept; weights and buffers are touched
  const auto start = Clock::now();
  const auto late = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > options.seconds;
  };
  std::vector<TimedPoint> cold, resumed;
  constexpr int kRateEvery = 8;
  for (const int i : spread_order(options.points)) {
    if (late()) break;
    const int tokens = 8 + i * (options.document - 16) / options.points;
    const bool from_end = out.points.size() % 2 == 1;
    if (out.points.size() % kRateEvery == 0) {
      const TimedPoint whole = requests.fastest({}, options.document, false);
      out.prefill_rate = std::max(out.prefill_rate, whole.recomputed / whole.seconds);
    }
    constexpr int kTail = 4;  // of a request that leaves the document early
    const std::span<const std::int32_t> shared(document);
    out.points.push_back(
        from_end ? requests.fastest(shared, tokens, true)
                 : requests.fastest(shared.first(static_cast<std::size_t>(tokens - kTail)), kTail,
                                    true));
    (out.points.back().cached > 0 ? resumed : cold).push_back(out.points.back());
  }
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
