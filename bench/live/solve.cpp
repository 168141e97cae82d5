// SPDX-License-Identifier: Apache-2.0
#include "bench/live/solve.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "actors/give_way.hpp"
#include "bench/live/client.hpp"
#include "bench/random_forest.hpp"

namespace cairn::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Solves one forest again and again while it lives.
class Solving {
 public:
  Solving(engine::ForestSolver& solver, double price, SolveResult& result)
      : result_(result), thread_([this, &solver, price] {
          actors::give_way_to_inference();
          while (!stop_.load()) {
            solver.solve_at(price);
            ++solves_;
          }
        }) {}
  Solving(const Solving&) = delete;
  Solving& operator=(const Solving&) = delete;
  ~Solving() {
    stop_ = true;
    thread_.join();
    result_.solves += solves_;
    result_.solving_seconds += seconds(Clock::now() - start_);
  }

 private:
  SolveResult& result_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<bool> stop_{false};
  std::int64_t solves_ = 0;  // of the thread, until it has been joined
  std::thread thread_;
};

class Measurement {
 public:
  explicit Measurement(const SolveOptions& options)
      : options_(options),
        solver_(solver_of(random_forest(ForestShape::random, options.nodes))),
        // A tenth of all bytes is kept: neither end of the forest is cut short.
        price_(solver_.solve_within(solver_.layout().total_bytes / 10)->price) {
    EngineOptions engine;
    engine.model = options.model;
    engine.threads = 1;
    engine_ = make_engine(std::move(engine));
  }

  SolveResult run() {
    step();  // weights and buffers are touched
    for (int i = 0; i < options_.pairs; ++i) {
      const bool quiet_first = random_() % 2 == 0;
      if (quiet_first) result_.quiet.push_back(step());
      {
        const Solving beside(solver_, price_, result_);
        result_.beside.push_back(step());
      }
      if (!quiet_first) result_.quiet.push_back(step());
    }
    return result_;
  }

 private:
  // Median of one run.
  double step() {
    GenerateRequest request =
        greedy(random_tokens(*engine_, random_, static_cast<std::size_t>(options_.prompt)),
               options_.answer);
    request.use_cache = false;
    const Reply reply = ask(*engine_, std::move(request));
    std::vector<double> steps;
    for (std::size_t i = 1; i < reply.times.size(); ++i) {
      steps.push_back(seconds(reply.times[i] - reply.times[i - 1]));
    }
    return median(std::move(steps));
  }

  const SolveOptions& options_;
  std::mt19937_64 random_{41};
  engine::ForestSolver solver_;
  double price_;
  std::unique_ptr<Engine> engine_;
  SolveResult result_;
};

}  // namespace

SolveResult measure_solve(const SolveOptions& options) { return Measurement(options).run(); }

Findings findings_of(const SolveResult& r) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < r.quiet.size(); ++i) ratios.push_back(r.beside[i] / r.quiet[i]);
  const double rate = r.solving_seconds > 0 ? static_cast<double>(r.solves) / r.solving_seconds : 0;
  return {{"runs of each kind", static_cast<double>(ratios.size()), "", {}},
          {"step without, median of runs", 1e3 * median(r.quiet), "ms", {}},
          {"step beside the solver, median of runs", 1e3 * median(r.beside), "ms", {}},
          {"solves beside the steps", rate, "a second", {}},
          {"step beside / without, median of runs", median(ratios), "", 1.03},
          {"step beside / without, lower quartile", quantile(ratios, 0.25), "", {}},
          {"step beside / without, upper quartile", quantile(ratios, 0.75), "", {}}};
}

}  // namespace cairn::bench
