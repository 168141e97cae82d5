// SPDX-License-Identifier: Apache-2.0
#include "cli/load/load.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "cli/load/kept.hpp"
#include "cli/load/longest.hpp"
#include "cli/load/needed.hpp"
#include "cli/load/repeats.hpp"
#include "cli/load/served.hpp"

namespace cairn::load {
namespace {

constexpr std::int32_t kWords = 4096;  // of prompts as text

class Load {
 public:
  Load(const LoadOptions& options, const std::atomic<bool>& stop, const LoadProgress& progress)
      : options_(options),
        stop_(stop),
        progress_(progress),
        server_(options.url, options.api_key, options.admin_key),
        repeats_(options.memory_bytes / kShares / kRepeatBytes) {}

  Report operator()() {
    auto client = http::Client::open(options_.url, {options_.api_key});
    if (!client) throw LoadError(client.error().message);
    client_ = client.take();
    const ServedModel model = server_.model();
    workload_options_ = options_.workload;
    std::int32_t& vocabulary = workload_options_.vocabulary;
    if (options_.ask.text) {
      vocabulary = kWords;
    } else if (vocabulary == 0) {
      const bool told =
          model.vocabulary > 0 && model.vocabulary <= std::numeric_limits<std::int32_t>::max();
      vocabulary = told ? static_cast<std::int32_t>(model.vocabulary) : 0;
      if (!told) {
        throw LoadError("the server does not tell how many tokens its vocabulary has: name it");
      }
    }
    const std::int64_t most = longest(workload_options_, options_.ask, server_);
    if (model.context > 0 && most > model.context) {
      throw LoadError("prompts and answers of up to " + std::to_string(most) +
                      " tokens do not fit the server's context of " +
                      std::to_string(model.context));
    }
    AskOptions ask = options_.ask;
    ask.model = model.id;
    asker_.emplace(std::move(ask));
    report_.server = options_.url;
    report_.model = model.id;
    for (int pass = 0; pass < options_.passes && report_.ended == "complete"; ++pass) {
      run_pass(pass);
    }
    report_.compared = repeats_.compared();
    report_.different = repeats_.different();
    report_.not_compared = repeats_.forgotten();
    return std::move(report_);
  }

 private:
  bool drops(int pass) const {
    return options_.drop == Drop::each || (options_.drop == Drop::first && pass == 0);
  }

  /// False when it could not be done, which ends the load.
  bool drop_cache(int pass) {
    const std::string problem = server_.drop_cache();
    if (problem.empty()) {
      cache_.emplace();
      return true;
    }
    if (pass == 0) throw LoadError(problem);
    report_.ended = problem;
    return false;
  }

  // Later passes ask what the first one asked.
  std::optional<Planned> next(int pass) {
    if (pass > 0 && at_ == first_pass_) return std::nullopt;
    ++at_;
    return workload_->next();
  }

  void run_pass(int index) {
    static constexpr const char* kNames[] = {"first pass", "second pass"};
    Pass pass;
    pass.name = index < 2 ? kNames[index] : "pass " + std::to_string(index + 1);
    pass.dropped = drops(index);
    workload_.emplace(workload_options_);
    if (pass.dropped && !drop_cache(index)) return;
    at_ = 0;
    asker_->restart();
    Tally tally;
    Kept kept(options_.memory_bytes / kShares);
    RunLimits limits = options_.limits;
    limits.waiting_bytes = options_.memory_bytes / kShares;
    RunLimits prepare = limits;
    prepare.concurrency = 1;
    prepare.rate.reset();
    prepare.seconds.reset();
    prepare.requests = options_.warm_up;
    const auto keep = [&](Record record) {
      repeats_.add(record);
      kept.add(std::move(record));
    };
    if (options_.warm_up > 0) {
      run_part(index, prepare, [&](Record record) {
        record.warm_up = true;
        keep(std::move(record));
      });
    }
    if (report_.ended == "complete") {
      const Series before = server_.series();
      pass.seconds = run_part(index, limits, [&](Record record) {
        tally.add(record);
        keep(std::move(record));
      });
      pass.server = growth(before, server_.series());
    }
    if (index == 0) first_pass_ = at_;
    close(pass, tally, kept);
  }

  double run_part(int index, const RunLimits& limits, const Sink& sink) {
    const RunResult part = run(
        *client_, *asker_, [&] { return next(index); }, sink, limits, stop_,
        [&](const RunProgress& progress) {
          if (progress_) progress_(index, progress);
        });
    if (!part.broken.empty()) report_.ended = part.broken;
    if (part.broken.empty() && stop_) report_.ended = "interrupted";
    return part.seconds;
  }

  // Once nothing is measured any more.
  void close(Pass& pass, Tally& tally, Kept& kept) {
    pass.every = kept.every();
    // A cache that has not seen all requests says nothing of later ones.
    if (!kept.whole()) cache_.reset();
    pass.records = kept.take();
    if (cache_) {
      learn_prompts(pass.records);
      count_needed(pass.records, *cache_);
      tally.add_needed(pass.records);
    }
    std::for_each(pass.records.begin(), pass.records.end(), strip);
    pass.groups = tally.take();
    const std::uint64_t most =
        options_.memory_bytes / kShares / static_cast<std::uint64_t>(options_.passes);
    std::uint64_t figures = 0;  // bytes; half of what the pass may take
    for (Group& group : pass.groups) {
      group.shrink(most / 2 / pass.groups.size());
      figures += group.bytes();
    }
    pass.every = Kept::shrink(pass.records, most - std::min(most, figures)) && pass.every;
    report_.passes.push_back(std::move(pass));
  }

  // Of prompts that were sent as text. A server that cannot say leaves them unknown.
  void learn_prompts(std::vector<Record>& records) const {
    for (Record& record : records) {
      if (record.question.empty() || !record.answered() || stop_) continue;
      auto tokens = server_.tokens_of(record.question);
      if (!tokens) return;
      record.prompt = std::move(*tokens);
      record.question = std::string();
    }
  }

  // Of the memory: the requests of this pass, those and the figures of all before, what was asked
  // and answered for the cache without limits, the answers to compare with, and turns that wait to
  // be sent.
  static constexpr std::uint64_t kShares = 5;
  static constexpr std::uint64_t kRepeatBytes = 256;  // of an answer to compare with, about

  const LoadOptions& options_;
  const std::atomic<bool>& stop_;
  const LoadProgress& progress_;
  Served server_;
  WorkloadOptions workload_options_;
  std::optional<Workload> workload_;  // of this pass, always the same
  std::unique_ptr<http::Client> client_;
  std::optional<Asker> asker_;
  std::int64_t at_ = 0, first_pass_ = 0;  // requests planned in this pass, in the first one
  std::optional<ExactCache> cache_ = ExactCache();
  Repeats repeats_;
  Report report_;
};

}  // namespace

Report run_load(const LoadOptions& options, const std::atomic<bool>& stop,
                const LoadProgress& progress) {
  return Load(options, stop, progress)();
}

}  // namespace cairn::load
