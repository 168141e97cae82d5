// SPDX-License-Identifier: Apache-2.0
// The loop with the real prefix cache, policies and planner: whatever is cached, evicted, shared,
// cancelled or preempted on the way, answers are those of a cold engine.
#include <deque>
#include <set>
#include <variant>

#include "engine/placement/policy_names.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;
using namespace cairn::engine;

namespace {

struct Job {
  SequenceId id = 0;
  Ask ask;
  TokenSeq tokens;  // prompt, and what was generated before a preemption
  std::int32_t generated = 0;
  bool use_cache = true;
  std::vector<StructuralPoint> structure;
  SequenceId leader = 0;  // waits for it to pass `until`
  std::int32_t until = -1;
};

// The actors' work, on one thread and in a random order.
class Server {
 public:
  Server(std::uint64_t seed, const std::string& policy, std::int64_t blocks, std::int32_t chunk)
      : rng_(seed),
        rig_({.max_step_tokens = chunk, .max_running = 6}, blocks, 24),
        cache_(rig_.pools, make_cache_policy(policy).take(), {.share_wait_tokens = 24}),
        planner_(planner_options_for(policy, 1024)),
        plans_(planner_options_for(policy, 1024).checkpoints > 0) {
    rig_.keep_saved = false;
  }

  void submit(Job job) {
    job.tokens = std::make_shared<const Tokens>(job.ask.prompt);
    jobs_[job.id] = job;
    queue_.push_back(std::move(job));
  }

  // Everything that can be done now, once.
  void turn() {
    admit_some();
    if (rng_() % 16 == 0) cancel_one();
    if (rng_() % 64 == 0) cache_.clear();
    if (!rig_.loop.has_work()) return;
    deliver(rig_.step_raw());
    cache_.verify();
  }

  void drain() {
    for (int i = 0; !queue_.empty() || rig_.loop.has_work(); ++i) {
      REQUIRE(i < 200'000);
      turn();
    }
  }

  void check_answers() {
    for (const auto& [id, job] : jobs_) {
      const Outcome& out = rig_.outcomes[id];
      INFO("sequence " << id);
      REQUIRE(out.ended);
      const Tokens cold = cold_answer(job.ask);
      if (out.reason == EndReason::cancelled) {
        REQUIRE(out.tokens.size() <= cold.size());
        CHECK(std::equal(out.tokens.begin(), out.tokens.end(), cold.begin()));
      } else {
        CHECK(out.tokens == cold);
      }
    }
    cache_.clear();
    CHECK(rig_.pools_empty());
  }

  const Tokens& answer(SequenceId id) { return rig_.outcomes[id].tokens; }
  std::int64_t cached_tokens = 0;
  std::int64_t waits = 0;
  int preemptions() const { return rig_.preemptions; }
  std::uint64_t evicted() const { return cache_.stats().evicted; }

 private:
  void admit_some() {
    for (std::size_t tries = queue_.size(); tries > 0 && rig_.loop.running() < 6; --tries) {
      Job job = std::move(queue_.front());
      queue_.pop_front();
      if (!try_admit(job)) queue_.push_back(std::move(job));
      if (rng_() % 2) break;
    }
  }

  bool try_admit(Job& job) {
    if (job.until >= 0) {
      const std::int32_t progress = rig_.loop.progress(job.leader);
      if (progress >= 0 && progress < job.until) return false;
      job.until = -1;
    }
    // Often less is reserved than will be needed, so that blocks run out on the way.
    const std::int32_t expected = rng_() % 2 ? job.ask.max_new - job.generated : 1;
    LookupRequest request{job.id, job.tokens, job.structure, expected, job.use_cache, true, {}};
    LookupResult found = cache_.lookup(request);
    if (auto* wait = std::get_if<ShareWait>(&found)) {
      ++waits;
      job.leader = wait->leader;
      job.until = wait->save.position;
      rig_.loop.add_save(wait->leader, std::move(wait->save));
      return false;
    }
    if (auto* none = std::get_if<NoRoom>(&found)) {
      REQUIRE(none->ever);
      return false;
    }
    SequenceSpec spec;
    spec.id = job.id;
    spec.tokens = job.tokens;
    spec.generated = job.generated;
    spec.max_new = job.ask.max_new;
    spec.sampling = job.ask.sampling;
    spec.choice = job.ask.choice;
    spec.lease = std::move(std::get<Lease>(found));
    cached_tokens += spec.lease.resume;
    rig_.loop.admit(std::move(spec));
    return true;
  }

  void cancel_one() { rig_.loop.cancel(rng_() % (jobs_.size() + 1)); }

  void deliver(StepReport report) {
    for (auto& saved : report.saved) cache_.publish(std::move(saved));
    for (const auto& ended : report.ended) cache_.end(ended.id);
    for (auto& gone : report.preempted) {
      cache_.end(gone.id);
      Job job = jobs_.at(gone.id);
      job.tokens = gone.tokens;
      job.generated = gone.generated;
      queue_.push_front(std::move(job));
    }
    for (const Observation& o : cache_.take_observations()) planner_.observe(o);
    if (plans_ && planner_.due()) cache_.adopt(planner_.solve());
    if (report.blocks_wanted > 0 && rng_() % 4) {
      std::optional<Reservation> more = cache_.extend(report.blocks_wanted);
      if (!more) more = cache_.extend(1);
      if (more) rig_.loop.add_blocks(std::move(*more));
    }
  }

  std::mt19937_64 rng_;
  Rig rig_;
  PrefixCache cache_;
  DpPlanner planner_;
  bool plans_;
  std::deque<Job> queue_;
  std::map<SequenceId, Job> jobs_;
};

// Documents with questions, chats that grow, repeats.
Job random_job(std::mt19937_64& rng, SequenceId id, Server& server,
               std::map<SequenceId, Ask>& asks) {
  Job job;
  job.id = id;
  const auto max_new = static_cast<std::int32_t>(rng() % 3 ? rng() % 30 : rng() % 110);
  job.ask = random_ask(1000 + rng() % 1000, 4, max_new);
  Tokens trunk = random_tokens(rng() % 3, static_cast<int>(rng() % 110 + 1));
  if (!asks.empty() && rng() % 3 == 0) {  // the next turn of some chat
    auto it = asks.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(rng() % asks.size()));
    trunk = it->second.prompt;
    const Tokens& own = server.answer(it->first);
    if (trunk.size() + own.size() < 160) trunk.insert(trunk.end(), own.begin(), own.end());
  }
  if (rng() % 5 == 0 && trunk.size() > 4) {
    job.ask.prompt = trunk;
  } else {
    job.ask.prompt.insert(job.ask.prompt.begin(), trunk.begin(), trunk.end());
  }
  job.use_cache = rng() % 10 != 0;
  if (rng() % 2) {
    const auto n = static_cast<std::int32_t>(job.ask.prompt.size());
    job.structure = {{n / 3}, {n / 2, StateKind::pinned}, {n - 2}};
  }
  return job;
}

struct Met {
  std::int64_t cached = 0;
  std::int64_t waits = 0;
  std::uint64_t evicted = 0;
  int preemptions = 0;
};

void run_schedules(std::uint64_t seed, Met& met) {
  for (const char* policy :
       {"dp:4+branch", "balanced:3+branch", "branch", "last", "none", "dp:2"}) {
    for (const std::int64_t blocks : {13, 24, 400}) {
      for (const std::int32_t chunk : {5, 16, 64}) {
        std::mt19937_64 rng(++seed);
        Server server(seed, policy, blocks, chunk);
        std::map<SequenceId, Ask> asks;
        INFO(policy << ", " << blocks << " blocks, chunks of " << chunk << ", seed " << seed);
        for (SequenceId id = 1; id <= 40; ++id) {
          Job job = random_job(rng, id, server, asks);
          asks[id] = job.ask;
          server.submit(std::move(job));
          for (auto turns = rng() % 12; turns > 0; --turns) server.turn();
        }
        server.drain();
        met.evicted += server.evicted();
        server.check_answers();
        met.cached += server.cached_tokens;
        met.waits += server.waits;
        met.preemptions += server.preemptions();
      }
    }
  }
}

}  // namespace

TEST_CASE("any schedule over the real prefix cache answers like a cold engine and gives all back") {
  Met met;
  run_schedules(0, met);
  CHECK(met.cached > 10'000);  // the schedules met what they are for
  CHECK(met.waits > 10);
  CHECK(met.evicted > 100);
  CHECK(met.preemptions > 0);
}

TEST_CASE("two thousand schedules more", "[.][soak]") {
  Met met;
  for (std::uint64_t seed = 1000; seed < 41'000; seed += 1000) run_schedules(seed, met);
  WARN(met.cached << " tokens from the cache, " << met.waits << " waits, " << met.evicted
                  << " evictions, " << met.preemptions << " preemptions");
}
