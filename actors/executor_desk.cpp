// SPDX-License-Identifier: Apache-2.0
#include "actors/executor_desk.hpp"

#include <cmath>
#include <utility>

#include "base/failpoints.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

engine::BatchOptions batch_options(const Shared& shared) {
  engine::BatchOptions options;
  options.max_step_tokens = shared.options.max_step_tokens;
  options.max_running = shared.options.max_running;
  options.sampled_vocab = shared.bundle->sampled_vocab;
  options.isa = shared.options.isa;
  options.arena = shared.arena.get();
  options.max_step_seconds = shared.options.max_step_ms * 1e-3;
  return options;
}

}  // namespace

ExecutorDesk::ExecutorDesk(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)),
      mail_(mail),
      backend_(shared_->make_backend()),
      loop_(std::make_unique<engine::BatchLoop>(*backend_, batch_options(*shared_))),
      outbox_(static_cast<std::size_t>(shared_->options.text_workers)) {}

// What a step that threw has queued is over before its blocks and states are anyone else's.
ExecutorDesk::~ExecutorDesk() {
  backend_.reset();
  shared_->pools->set_quiet(true);
}

void ExecutorDesk::handle(const ExecutorMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
  schedule();
  tell_pools();
}

void ExecutorDesk::tell_pools() {
  const bool quiet = !loop_->has_work();
  if (quiet != quiet_) shared_->pools->set_quiet(quiet);
  quiet_ = quiet;
}

void ExecutorDesk::schedule() {
  if (step_pending_ || stalled_ || !loop_->has_work()) return;
  step_pending_ = true;
  mail_.executor(Step{});
}

void ExecutorDesk::on(const Admit& m) {
  stalled_ = false;
  loop_->admit(std::move(*m.spec));
}

void ExecutorDesk::on(const CancelSequence& m) {
  stalled_ = false;
  loop_->cancel(m.seq);
}

void ExecutorDesk::on(const AddSave& m) {
  if (!loop_->add_save(m.leader, m.save)) mail_.prefix(SaveRefused{m.leader});
}

void ExecutorDesk::on(const BlocksGranted& m) {
  blocks_asked_ = stalled_ = false;
  if (m.blocks) loop_->add_blocks(std::move(*m.blocks));
}

void ExecutorDesk::on(const PrefixReplaced&) { blocks_asked_ = stalled_ = false; }

void ExecutorDesk::on(const CancelAll&) {
  stalled_ = false;
  loop_->cancel_all();
}

void ExecutorDesk::on(const Step&) {
  step_pending_ = false;
  hit_failpoint("executor.step");
  engine::StepReport report = loop_->step();
  measure(report);
  const bool idle = report.prefill_rows + report.decode_rows == 0;
  deliver(report);
  // The next step would preempt the youngest: have prefix's answer first, it may have something to
  // drop.
  stalled_ = idle && blocks_asked_;
}

// Order matters: a worker has a sequence's last tokens before the router hears of its end, and
// prefix has its states before its end.
void ExecutorDesk::deliver(engine::StepReport& report) {
  send_tokens(report);
  send_saves(report);
  if (report.blocks_wanted > 0 && !blocks_asked_) {
    blocks_asked_ = true;
    mail_.prefix(WantBlocks{report.blocks_wanted});
  }
  if (!report.ended.empty() || !report.preempted.empty()) {
    mail_.router(SequencesEnded{std::move(report.ended), std::move(report.preempted)});
  }
}

void ExecutorDesk::send_tokens(engine::StepReport& report) {
  const auto box = [&](SequenceId id) -> StepTokens& {
    return outbox_[static_cast<std::size_t>(worker_of(id))];
  };
  for (auto& token : report.tokens) box(token.id).tokens.push_back(std::move(token));
  for (auto& part : report.prompt_logprobs) {
    box(part.id).prompt_logprobs.push_back(std::move(part));
  }
  for (const auto& ended : report.ended) box(ended.id).ended.push_back(ended);
  const auto now = Clock::now();
  for (std::size_t w = 0; w < outbox_.size(); ++w) {
    StepTokens& out = outbox_[w];
    if (out.tokens.empty() && out.prompt_logprobs.empty() && out.ended.empty()) continue;
    out.at = now;
    mail_.worker(static_cast<int>(w), std::move(out));
    out = {};
  }
}

void ExecutorDesk::send_saves(engine::StepReport& report) {
  for (auto& saved : report.saved) {
    mail_.checkpoints(Saved{std::make_shared<engine::SavedState>(std::move(saved))});
  }
  for (const auto& ended : report.ended) mail_.checkpoints(EndOfSaves{ended.id});
}

// A moving average; the first value as it is.
void ExecutorDesk::learn(std::atomic<double>& average, double now) {
  constexpr double kKeep = 0.9;
  const double before = average.load();
  average = before == 0 ? now : kKeep * before + (1 - kKeep) * now;
}

void ExecutorDesk::measure_restores(const engine::StepReport& report) {
  if (report.restores == 0) return;
  const double each = report.restore_seconds / report.restores;
  learn(shared_->seconds_per_state_copy, each);
  for (std::int32_t i = 0; i < report.restores; ++i) {
    shared_->metrics->state_restore_seconds().observe(each);
  }
}

void ExecutorDesk::measure(const engine::StepReport& report) {
  const std::int32_t rows = report.prefill_rows + report.decode_rows;
  if (rows == 0) return;
  const Phase phase = report.decode_rows == 0    ? Phase::prefill
                      : report.prefill_rows == 0 ? Phase::decode
                                                 : Phase::mixed;
  const Metrics& metrics = *shared_->metrics;
  metrics.batch_size(phase).observe(rows);
  metrics.step_seconds(phase).observe(report.seconds);
  metrics.step_rows_held_back_total().add(report.rows_held_back);
  if (phase == Phase::mixed && report.expected_seconds > 0) {
    metrics.step_prediction_error().observe(
        std::abs(report.model_seconds / report.expected_seconds - 1));
  }
  measure_restores(report);
  if (phase == Phase::prefill) {
    learn(shared_->seconds_per_prefill_token, report.seconds / report.prefill_rows);
    cost_.add(report.prefill_rows, report.prefill_context, report.seconds);
    const engine::CostModel fit = cost_.fit();
    shared_->prefill_seconds_a = fit.a;
    shared_->prefill_seconds_b = fit.b;
  }
}

}  // namespace cairn::actors
