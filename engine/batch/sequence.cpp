// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/sequence.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace cairn::engine {

Sequence::Sequence(SequenceSpec spec) : spec_(std::move(spec)) {
  Lease& lease = spec_.lease;
  check(spec_.tokens && !spec_.tokens->empty(), "a sequence without tokens");
  length_ = static_cast<std::int32_t>(spec_.tokens->size());
  generated_ = spec_.generated;
  progress_ = lease.resume;
  check(lease.resume >= 0 && lease.resume < length_, "a resume point outside the prompt");
  check(generated_ >= 0 && generated_ < length_, "more tokens generated than there are");
  check((lease.resume == 0) == !lease.resume_state, "a resume point without its state");
  check(static_cast<bool>(lease.running_state), "a lease without a running state");
  check(static_cast<std::int32_t>(lease.prefix_blocks.size()) == blocks_for(lease.resume),
        "a resume point without its blocks");
  if (lease.resume % model::kBlockTokens != 0) {
    shared_tail_ = std::move(lease.prefix_blocks.back());
    lease.prefix_blocks.pop_back();
  }
  for (KvBlockRef& block : lease.prefix_blocks) give_block(std::move(block));
  lease.prefix_blocks.clear();
  if (lease.publish) saves_ = std::move(lease.saves);
  std::erase_if(saves_, [&](const PlannedSave& save) {  // storing is optional: never an error
    return !save.state || save.position <= lease.resume || save.position > length_;
  });
  lease.saves.clear();
  if (model::has_penalty(spec_.sampling)) {
    history_ = std::make_unique<model::TokenHistory>();
    const std::span<const std::int32_t> all = *spec_.tokens;
    const auto own = static_cast<std::size_t>(generated_);
    history_->add_prompt(all.first(all.size() - own));
    for (const std::int32_t token : all.last(own)) history_->add_generated(token);
  }
}

std::int32_t Sequence::rows_covered() const {
  const auto blocks =
      static_cast<std::int64_t>(blocks_.size()) + spec_.lease.reservation.blocks_left();
  const std::int64_t rows = blocks * model::kBlockTokens - progress_;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(rows, 0, INT32_MAX));
}

std::int32_t Sequence::blocks_wanted(std::int32_t ahead) const {
  if (phase_ == Phase::ended || cancelled_) return 0;
  // The last token of an answer is sampled but not run.
  std::int64_t end =
      static_cast<std::int64_t>(length_) + std::max(spec_.max_new - spec_.generated - 1, 0);
  if (spec_.context_length > 0) {
    end = std::clamp<std::int64_t>(spec_.context_length - 1, length_, end);
  }
  const std::int64_t next = phase_ == Phase::prefilling ? length_ : progress_ + 1;
  const std::int64_t covered = static_cast<std::int64_t>(progress_) + rows_covered();
  if (covered >= end || covered - next >= model::kBlockTokens) return 0;
  const std::int64_t missing = end - covered;
  const std::int64_t blocks = (missing + model::kBlockTokens - 1) / model::kBlockTokens;
  return static_cast<std::int32_t>(std::min<std::int64_t>(blocks, ahead));
}

void Sequence::give_block(KvBlockRef block) {
  block_data_.push_back(block.data());
  blocks_.push_back(std::move(block));
}

std::vector<KvBlockRef> Sequence::surrender_blocks() {
  std::vector<KvBlockRef> own;
  Reservation& reserved = spec_.lease.reservation;
  while (reserved.blocks_left() > 0) own.push_back(reserved.take_block());
  for (KvBlockRef& block : blocks_) {
    if (block.use_count() == 1) own.push_back(std::move(block));
  }
  blocks_.clear();
  block_data_.clear();
  return own;
}

void Sequence::cover(std::int32_t position) {
  const auto needed = static_cast<std::size_t>(blocks_for(position));
  while (blocks_.size() < needed) give_block(spec_.lease.reservation.take_block());
}

void Sequence::restore(model::Backend& backend) {
  Lease& lease = spec_.lease;
  restored_ = true;
  if (lease.resume == 0) {
    backend.reset_state(lease.running_state.data());
    return;
  }
  backend.copy_state(lease.resume_state.data(), lease.running_state.data());
  lease.resume_state = {};
  if (shared_tail_) {  // this sequence goes on writing where others may have gone on differently
    cover(lease.resume);
    const std::int32_t slots = lease.resume % model::kBlockTokens;
    backend.copy_kv_slots(shared_tail_.data(), block_data_.back(), slots);
    shared_tail_ = {};
  }
}

model::StepSlice Sequence::slice(std::int32_t rows) {
  cover(progress_ + rows);
  model::StepSlice slice;
  slice.position = progress_;
  slice.kv_blocks = block_data_;
  slice.state = spec_.lease.running_state.data();
  if (phase_ == Phase::decoding) {
    slice.tokens = {&answer_.back(), 1};
    return slice;
  }
  slice.tokens = std::span<const std::int32_t>(*spec_.tokens)
                     .subspan(static_cast<std::size_t>(progress_), static_cast<std::size_t>(rows));
  save_points_.clear();
  for (std::size_t i = next_save_; i < saves_.size(); ++i) {
    if (saves_[i].position > progress_ + rows) break;
    save_points_.push_back({saves_[i].position, saves_[i].state.data()});
  }
  slice.saves = save_points_;
  return slice;
}

void Sequence::advance(std::int32_t rows, std::vector<SavedState>& saved) {
  progress_ += rows;
  for (; next_save_ < saves_.size() && saves_[next_save_].position <= progress_; ++next_save_) {
    PlannedSave& save = saves_[next_save_];
    saved.push_back({spec_.id, spec_.tokens, save.position, save.kind, std::move(save.state),
                     blocks_to(save.position), spec_.lease.scope});
  }
}

bool Sequence::may_sample() const {
  const std::int32_t total = length_ + static_cast<std::int32_t>(answer_.size());
  if (spec_.context_length > 0 && total >= spec_.context_length) return false;
  return generated_ < spec_.max_new;
}

bool Sequence::append(std::int32_t token, EndReason* reason) {
  answer_.push_back(token);
  ++generated_;
  if (history_) history_->add_generated(token);
  const auto& stops = spec_.stop_ids;
  const bool stop = std::find(stops.begin(), stops.end(), token) != stops.end();
  phase_ = Phase::decoding;
  if (stop || !may_sample()) {
    *reason = stop ? EndReason::stop : EndReason::length;
    phase_ = Phase::ended;
  }
  return stop;
}

bool Sequence::add_save(PlannedSave save) {
  if (!publishes() || cancelled_ || phase_ != Phase::prefilling) return false;
  if (save.position <= progress_ || save.position > length_) return false;
  const auto from = saves_.begin() + static_cast<std::ptrdiff_t>(next_save_);
  const auto at =
      std::lower_bound(from, saves_.end(), save.position,
                       [](const PlannedSave& x, std::int32_t p) { return x.position < p; });
  if (at != saves_.end() && at->position == save.position) return true;
  if (!save.state) return false;
  saves_.insert(at, std::move(save));
  return true;
}

SavedState Sequence::hand_over(StateKind kind) {
  return {spec_.id,
          all_tokens(),
          progress_,
          kind,
          std::move(spec_.lease.running_state),
          blocks_to(progress_),
          spec_.lease.scope};
}

TokenSeq Sequence::all_tokens() const {
  if (answer_.empty()) return spec_.tokens;
  auto all = std::make_shared<std::vector<std::int32_t>>();
  all->reserve(spec_.tokens->size() + answer_.size());
  all->insert(all->end(), spec_.tokens->begin(), spec_.tokens->end());
  all->insert(all->end(), answer_.begin(), answer_.end());
  return all;
}

std::vector<KvBlockRef> Sequence::blocks_to(std::int32_t position) const {
  return {blocks_.begin(), blocks_.begin() + blocks_for(position)};
}

}  // namespace cairn::engine
