// SPDX-License-Identifier: Apache-2.0
#include "actors/disk_side.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

// What a rate brings in hits over the next 4,096 requests, in units of itself: it decays as
// engine::aged_rate says, and 64 ln(1 + 4096 / 64) = 267.
constexpr double kRequestsAhead = 267;
// Requests between two forecasts, and places on disk that each of them looks at.
constexpr std::uint64_t kForecastEvery = 64;
constexpr std::uint64_t kForecastLeast = 16;
constexpr std::size_t kForecastPlaces = 16;
// States that wait to be written; the oldest are forgotten beyond it.
constexpr std::size_t kMaxCandidates = 64;
// How long a request waits for a read while the speed of prefill is not known yet, and at most.
constexpr double kPatience = 1.0;
constexpr double kMostPatience = 30.0;
constexpr double kLeastPatience = 0.01;

}  // namespace

DiskSide::DiskSide(std::shared_ptr<Shared> shared, Mail& mail, engine::PrefixCache& cache)
    : shared_(std::move(shared)), mail_(mail), cache_(cache) {}

// 0: nothing has been computed yet.
double DiskSide::compute_seconds(std::int64_t tokens) const {
  return shared_->seconds_per_prefill_token.load() * static_cast<double>(tokens);
}

// A read waits for the write that is under way.
double DiskSide::queue_seconds(const engine::DiskStat& stat) const {
  return writing_ && stat.puts > 0 ? stat.write_seconds / static_cast<double>(stat.puts) : 0.0;
}

// A state at `to` and the KV from `from`, rounded down to a block.
std::uint64_t DiskSide::bytes_of(std::int32_t from, std::int32_t to) const {
  const model::MemoryLayout& layout = shared_->pools->layout();
  const auto blocks = static_cast<std::uint64_t>(engine::blocks_for(to)) -
                      static_cast<std::uint64_t>(from / model::kBlockTokens);
  return layout.state_bytes + blocks * layout.kv_block_bytes;
}

bool DiskSide::hold(const Lookup& lookup) {
  const engine::LookupRequest& request = *lookup.request;
  if (!shared_->disk || !request.use_cache) return false;
  const auto last = static_cast<std::int32_t>(request.tokens->size()) - 1;
  std::int32_t limit = last;
  if (const auto before = waited_.extract(request.id)) limit = std::min(last, before.mapped());
  if (limit <= 0) return false;
  const auto match = shared_->disk->match(request.scope, *request.tokens, limit);
  if (!match) return false;
  for (auto& [id, reading] : readings_) {
    if (reading.state != match->id) continue;
    // What others began to read for may have been overtaken by what was computed meanwhile.
    if (cache_.held(request.scope, *request.tokens, last).position >= match->position) {
      return false;
    }
    park(lookup, reading);
    return true;
  }
  if (!overdue_.empty() || !start_reading(request, *match)) return false;
  park(lookup, readings_.at(next_reading_ - 1));
  return true;
}

bool DiskSide::start_reading(const engine::LookupRequest& request, const engine::DiskMatch& match) {
  const std::int32_t whole = match.position / model::kBlockTokens;
  const auto last = static_cast<std::int32_t>(request.tokens->size()) - 1;
  engine::HeldState memory = cache_.held(request.scope, *request.tokens, last);
  if (memory.position >= match.position) return false;
  const double gain = compute_seconds(match.position - memory.position);
  const engine::DiskStat stat = shared_->disk->stat();
  const double cost = queue_seconds(stat) +
                      engine::disk_read_seconds(stat, bytes_of(memory.position, match.position));
  if (gain > 0 && gain <= cost) return false;

  auto fetch = std::make_shared<DiskFetch>();
  fetch->id = next_reading_;
  fetch->match = match;
  fetch->scope = request.scope;
  fetch->tokens = request.tokens;
  fetch->first_block = std::min(memory.position / model::kBlockTokens, whole);
  fetch->blocks = std::move(memory.blocks);
  fetch->blocks.resize(static_cast<std::size_t>(fetch->first_block));
  memory.state = {};
  const std::int32_t blocks = engine::blocks_for(match.position) - fetch->first_block;
  auto room = cache_.extend(blocks, 1);
  if (!room) return false;  // live work needs it more
  fetch->state = room->take_state();
  for (std::int32_t b = 0; b < blocks; ++b) fetch->blocks.push_back(room->take_block());

  readings_[next_reading_++].state = match.id;
  const double patience = gain > 0 ? std::clamp(gain, kLeastPatience, kMostPatience) : kPatience;
  mail_.disk(FetchState{fetch});
  mail_.prefix_after(std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * patience)),
                     FetchLate{fetch->id});
  return true;
}

void DiskSide::park(const Lookup& lookup, Reading& reading) {
  reading.waiters.push_back(lookup.request->id);
  waited_[lookup.request->id] = 0;
  shared_->metrics->disk_read_waits_total().add();
  mail_.router(Parked{lookup.request->id, lookup.attempt, Parked::For::disk});
}

void DiskSide::wake(Reading& reading) {
  // Each goes to the front of the queue: the last one sent is the first one served.
  std::for_each(reading.waiters.rbegin(), reading.waiters.rend(), [this](SequenceId seq) {
    mail_.router(Unparked{seq, true});
  });
}

void DiskSide::forget(SequenceId seq) {
  waited_.erase(seq);
  for (auto& [id, reading] : readings_) std::erase(reading.waiters, seq);
}

void DiskSide::on(const Fetched& m) {
  if (m.good && m.fetch->id >= first_kept_) {
    engine::SavedState saved;
    saved.tokens = m.fetch->tokens;
    saved.position = m.fetch->match.position;
    saved.kind = m.fetch->match.kind;
    saved.state = std::move(m.fetch->state);
    saved.blocks = std::move(m.fetch->blocks);
    saved.scope = m.fetch->scope;
    cache_.publish(std::move(saved));
  }
  const auto it = readings_.find(m.fetch->id);
  overdue_.erase(m.fetch->id);
  if (it == readings_.end()) return;
  if (!m.good) {
    for (const SequenceId seq : it->second.waiters) waited_[seq] = m.fetch->match.position - 1;
  }
  wake(it->second);
  readings_.erase(it);
}

void DiskSide::on(const FetchLate& m) {
  const auto it = readings_.find(m.id);
  if (it == readings_.end()) return;
  shared_->metrics->disk_reads_late_total().add(static_cast<double>(it->second.waiters.size()));
  wake(it->second);
  readings_.erase(it);
  overdue_.insert(m.id);
}

void DiskSide::offer(const engine::SavedState& saved) {
  offer(Candidate{saved.tokens, saved.position, saved.kind, saved.scope});
}

void DiskSide::offer(Candidate candidate) {
  if (!shared_->disk) return;
  const auto same = [&](const Candidate& c) {
    return c.scope == candidate.scope && std::ranges::equal(c.path(), candidate.path());
  };
  if (std::any_of(candidates_.begin(), candidates_.end(), same) || !weigh(candidate)) return;
  candidates_.push_back(std::move(candidate));
  if (candidates_.size() > kMaxCandidates) candidates_.pop_front();
}

void DiskSide::seen(const engine::LookupRequest& request, const engine::Lease& lease) {
  if (!shared_->disk || !request.use_cache) return;
  ++requests_;
  const std::span<const std::int32_t> tokens(*request.tokens);
  const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
  const auto match = shared_->disk->match(request.scope, tokens, last);
  if (match) {
    const auto path = tokens.first(static_cast<std::size_t>(match->position));
    if (const auto d = cache_.predicted(request.scope, path))
      rates_.emplace_back(match->id, d->reach);
  }
  if (lease.resume > (match ? match->position : 0)) {
    offer(Candidate{request.tokens, lease.resume, lease.resume_kind, request.scope});
    write_next();
  }
  if (requests_ >= kForecastEvery) send_forecast();
}

void DiskSide::replanned() {
  if (shared_->disk && requests_ >= kForecastLeast) send_forecast();
}

// All places in turn: what is asked for is told at once, what is not decays by itself meanwhile.
void DiskSide::send_forecast() {
  auto forecast = std::make_shared<engine::DiskForecast>();
  forecast->requests = std::exchange(requests_, 0);
  forecast->prefill = {.a = shared_->prefill_seconds_a.load(),
                       .b = shared_->prefill_seconds_b.load()};
  forecast->rates = std::exchange(rates_, {});
  const auto places = shared_->disk->places(last_place_, kForecastPlaces);
  last_place_ = places.size() < kForecastPlaces ? 0 : places.back().id;
  for (const engine::DiskPlace& p : places) {
    if (const auto d = cache_.predicted(p.scope, p.tokens)) {
      forecast->rates.emplace_back(p.id, d->reach);
    }
  }
  mail_.disk(Forecast{std::move(forecast)});
}

void DiskSide::on(const DiskIdle&) {
  writing_ = false;
  write_next();
}

void DiskSide::on(const DiskReplaced&) {
  for (auto& [id, reading] : readings_) wake(reading);
  readings_.clear();
  overdue_.clear();
  on(DiskIdle{});
}

void DiskSide::clear(const DroppedCache& dropped, const Reply<DroppedCache>& reply) {
  candidates_.clear();
  for (auto& [id, reading] : readings_) {
    wake(reading);
    overdue_.insert(id);  // the disk is at it still
  }
  readings_.clear();
  waited_.clear();  // whoever waited comes back cold
  first_kept_ = next_reading_;
  if (shared_->disk) {
    mail_.disk(PurgeDisk{reply, dropped});
  } else if (reply) {
    reply->set_value(dropped);
  }
}

// Whether the hits that are predicted save more by reading it back than the write takes.
bool DiskSide::weigh(Candidate& c) const {
  const auto above = shared_->disk->match(c.scope, c.path(), c.position);
  const std::int32_t from = above ? above->position : 0;
  if (from == c.position) return false;
  const std::uint64_t bytes = bytes_of(from, c.position);
  const engine::DiskStat stat = shared_->disk->stat();
  const double saved = compute_seconds(c.position - from) - engine::disk_read_seconds(stat, bytes);
  if (saved <= 0) return false;
  c.worth = saved / static_cast<double>(bytes);
  const auto demand = cache_.predicted(c.scope, c.path());
  c.predicted = demand.has_value();
  if (!demand) return true;
  c.rate = demand->reach;
  c.worth *= demand->served;
  const double write = engine::disk_write_seconds(stat, bytes);
  return kRequestsAhead * demand->served * saved > write;
}

// One at a time, by what is predicted to be saved per byte; without predictions the surest kind
// first. What is still waiting keeps no memory: a state that is evicted meanwhile is not written.
void DiskSide::write_next() {
  if (!shared_->disk || writing_) return;
  // What was written and asked for meanwhile has changed what the others are worth.
  std::erase_if(candidates_, [this](Candidate& c) { return !weigh(c); });
  const auto order = [](const Candidate& c) {
    return std::make_pair(c.predicted ? 0 : rank(c.kind), -c.worth);
  };
  while (!candidates_.empty()) {
    const auto best = std::min_element(
        candidates_.begin(), candidates_.end(),
        [&](const Candidate& a, const Candidate& b) { return order(a) < order(b); });
    Candidate chosen = std::move(*best);
    candidates_.erase(best);
    engine::HeldState held = cache_.held(chosen.scope, chosen.path(), chosen.position);
    if (held.position != chosen.position) continue;
    auto saved = std::make_shared<engine::SavedState>();
    saved->tokens = chosen.tokens;
    saved->position = chosen.position;
    saved->kind = chosen.kind;
    saved->state = std::move(held.state);
    saved->blocks = std::move(held.blocks);
    saved->scope = chosen.scope;
    mail_.disk(StoreState{std::move(saved), chosen.rate});
    writing_ = true;
    break;
  }
  shared_->disk_backlog = static_cast<std::int64_t>(candidates_.size()) + (writing_ ? 1 : 0);
}

}  // namespace cairn::actors
