// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/batch_loop.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.hpp"
#include "engine/batch/batch_impl.hpp"

namespace cairn::engine {
namespace {

using Clock = StepClock;
using Phase = Sequence::Phase;

constexpr std::int32_t kBlocksAhead = 4;    // asked for at once for one decoding sequence
constexpr std::int32_t kWorthKeeping = 16;  // tokens of a cancelled prompt

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void BatchLoop::Impl::end_cancelled(StepReport& report) {
  const auto at = now();
  for (const auto& r : running) {
    if (r->sequence.cancelled()) finish(*r, EndReason::cancelled, at, report);
  }
  drop_ended();
}

void BatchLoop::Impl::restore(StepReport& report) {
  for (const Part& part : parts) {
    Sequence& s = part.running->sequence;
    if (s.restored()) continue;
    part.running->started = now();
    const bool copies = s.spec().lease.resume > 0;
    const bool waits = copies && options.arena && restores++ % kRestoresPerTimed == 0;
    if (waits) options.arena->finish();
    const auto start = now();
    s.restore(backend);
    if (waits) options.arena->finish();
    if (!copies || (options.arena && !waits)) continue;
    ++report.restores;
    report.restore_seconds += seconds(start, now());
  }
}

void BatchLoop::Impl::run(StepReport& report) {
  restore(report);
  const auto start = now();
  slices.clear();
  result.begin();
  std::int32_t rows = 0;
  for (Part& part : parts) {
    slices.push_back(ask_for(part, rows));
    rows += part.logits;
  }
  result.run(slices, rows);
  const auto end = now();
  report.model_seconds = seconds(start, end);
  report.expected_seconds = pace.observe(shape, report.model_seconds);
  report.tokens.reserve(parts.size());
  for (const Part& part : parts) take_result(part, end, report);
}

model::StepSlice BatchLoop::Impl::ask_for(Part& part, std::int32_t first_logits) {
  Sequence& s = part.running->sequence;
  const SequenceSpec& spec = s.spec();
  model::StepSlice slice = s.slice(part.rows);
  const bool prompt_rows = wants_prompt_logprobs(s);
  part.samples = s.progress() + part.rows >= s.length() && s.may_sample();
  part.first_logits = first_logits;
  part.logits = prompt_rows ? part.rows : part.samples ? 1 : 0;
  if (part.logits > 0) slice.logits_from = part.rows - part.logits;
  if (part.samples) {
    part.sample = result.want({.row = first_logits + part.logits - 1,
                               .params = &spec.sampling,
                               .history = s.history(),
                               .choice = spec.choice,
                               .index = static_cast<std::uint64_t>(s.generated())});
  }
  if (prompt_rows || (part.samples && spec.logprobs >= 0)) result.want_logits();
  return slice;
}

void BatchLoop::Impl::take_result(const Part& part, Clock::time_point now, StepReport& report) {
  Sequence& s = part.running->sequence;
  if (!finite(part)) return fail(*part.running, now, report);
  if (wants_prompt_logprobs(s)) report_prompt(part, report);
  const bool completes = s.progress() + part.rows >= s.length();
  const bool first = s.phase() == Phase::prefilling && completes;
  s.advance(part.rows, report.saved);
  if (first) part.running->prefilled = now;
  if (part.samples) {
    append(part, report);
  } else if (completes) {
    finish(*part.running, EndReason::length, now, report);
  }
}

bool BatchLoop::Impl::finite(const Part& part) const {
  if (part.samples && !result.sampled(part.sample).finite) return false;
  if (!wants_prompt_logprobs(part.running->sequence)) return true;
  for (std::int32_t i = 0; i < part.logits; ++i) {
    if (!result.finite(part.first_logits + i)) return false;
  }
  return true;
}

void BatchLoop::Impl::report_prompt(const Part& part, StepReport& report) {
  const Sequence& s = part.running->sequence;
  const std::vector<std::int32_t>& tokens = *s.spec().tokens;
  PromptLogprobs out;
  out.id = s.id();
  out.position = s.progress() + 1;
  const std::int32_t end = std::min(s.progress() + part.rows, s.length() - 1);
  for (std::int32_t p = s.progress(); p < end; ++p) {
    out.entries.push_back(result.logprobs(part.first_logits + p - s.progress(),
                                          tokens[static_cast<std::size_t>(p) + 1],
                                          std::max(s.spec().logprobs, 0)));
  }
  if (!out.entries.empty()) report.prompt_logprobs.push_back(std::move(out));
}

void BatchLoop::Impl::append(const Part& part, StepReport& report) {
  Sequence& s = part.running->sequence;
  SampledToken& out = report.tokens.emplace_back();
  out.id = s.id();
  out.token = result.sampled(part.sample).token;
  if (s.spec().logprobs >= 0) {
    const std::int32_t row = part.first_logits + part.logits - 1;
    out.logprobs = result.logprobs(row, out.token, s.spec().logprobs);
  }
  EndReason reason = EndReason::stop;
  out.stop = s.append(out.token, &reason);
  if (s.phase() == Phase::ended) finish(*part.running, reason, now(), report);
}

void BatchLoop::Impl::finish(Running& r, EndReason reason, Clock::time_point now,
                             StepReport& report) {
  Sequence& s = r.sequence;
  EndedSequence& ended = report.ended.emplace_back();
  ended.id = s.id();
  ended.reason = reason;
  ended.in_prefill = r.prefilled == Clock::time_point{};
  if (s.restored()) {
    ended.prefill_seconds = seconds(r.started, ended.in_prefill ? now : r.prefilled);
    if (!ended.in_prefill) ended.decode_seconds = seconds(r.prefilled, now);
  }
  const bool ran = s.restored() && s.progress() > s.spec().lease.resume;
  const bool enough = s.progress() - s.spec().lease.resume >= kWorthKeeping;
  if (s.publishes() && ran && reason != EndReason::failed && (enough || !ended.in_prefill)) {
    report.saved.push_back(
        s.hand_over(ended.in_prefill ? StateKind::planned : StateKind::answer_end));
  }
  s.end();
}

void BatchLoop::Impl::fail(Running& r, Clock::time_point now, StepReport& report) {
  finish(r, EndReason::failed, now, report);
  report.ended.back().error = {
      ErrorCode::internal,
      "the model produced logits that are not finite numbers at position " +
          std::to_string(r.sequence.progress()) + "; the request was stopped",
      ""};
}

template <class Take>
void BatchLoop::Impl::distribute(std::int32_t blocks, Take&& take) {
  bool given = true;
  while (blocks > 0 && given) {  // in turns, oldest first
    given = false;
    for (const auto& r : running) {
      if (blocks == 0 || r->sequence.blocks_wanted(1) == 0) continue;
      r->sequence.give_block(take());
      --blocks;
      given = true;
    }
  }
}

void BatchLoop::Impl::preempt_youngest(StepReport& report) {
  Sequence& s = running.back()->sequence;
  report.preempted.push_back({s.id(), s.all_tokens(), s.generated()});
  std::vector<KvBlockRef> freed = s.surrender_blocks();
  s.end();
  drop_ended();
  distribute(static_cast<std::int32_t>(freed.size()), [&] {
    KvBlockRef block = std::move(freed.back());
    freed.pop_back();
    return block;
  });
}

std::int32_t BatchLoop::Impl::blocks_wanted() const {
  std::int32_t wanted = 0;
  for (const auto& r : running) {  // little is easier to get than much
    wanted += r->sequence.blocks_wanted(r->sequence.rows_covered() == 0 ? 1 : kBlocksAhead);
  }
  return wanted;
}

void BatchLoop::Impl::drop_ended() {
  std::erase_if(running, [](const auto& r) { return r->sequence.phase() == Phase::ended; });
}

BatchLoop::BatchLoop(model::Backend& backend, BatchOptions options)
    : impl_(std::make_unique<Impl>(backend, std::move(options))) {}

BatchLoop::~BatchLoop() = default;

void BatchLoop::admit(SequenceSpec spec) {
  check(running() < impl_->options.max_running, "more sequences admitted than may run");
  check(!impl_->find(spec.id), "a sequence admitted twice");
  impl_->running.push_back(std::make_unique<Running>(std::move(spec)));
}

void BatchLoop::cancel(SequenceId id) {
  if (Running* r = impl_->find(id)) r->sequence.cancel();
}

void BatchLoop::cancel_all() {
  for (const auto& r : impl_->running) r->sequence.cancel();
}

bool BatchLoop::add_save(SequenceId id, PlannedSave save) {
  Running* r = impl_->find(id);
  return r && r->sequence.add_save(std::move(save));
}

void BatchLoop::add_blocks(Reservation blocks) {
  impl_->distribute(blocks.blocks_left(), [&] { return blocks.take_block(); });
}

bool BatchLoop::has_work() const { return !impl_->running.empty(); }

std::int32_t BatchLoop::running() const {
  return static_cast<std::int32_t>(
      std::count_if(impl_->running.begin(), impl_->running.end(),
                    [](const auto& r) { return !r->sequence.cancelled(); }));
}

std::int32_t BatchLoop::progress(SequenceId id) const {
  const Running* r = impl_->find(id);
  return r ? r->sequence.progress() : -1;
}

StepReport BatchLoop::step() {
  Impl& d = *impl_;
  StepReport report;
  const auto start = d.now();
  d.end_cancelled(report);
  d.plan(report);
  if (!d.parts.empty()) {
    d.stalled = false;
    d.run(report);
    d.drop_ended();
  } else if (!d.running.empty()) {
    if (d.stalled) d.preempt_youngest(report);
    d.stalled = !d.stalled;
  }
  report.blocks_wanted = d.blocks_wanted();
  report.seconds = seconds(start, d.now());
  return report;
}

}  // namespace cairn::engine
