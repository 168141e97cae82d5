// SPDX-License-Identifier: Apache-2.0
// One sequence of the batch: its tokens, the memory it holds and where it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/batch/batch_loop.hpp"

namespace cairn::engine {

/// Owned by the batch loop. Memory comes from the lease's reservation and from give_block(); all
/// of it returns with the object.
class Sequence {
 public:
  enum class Phase : std::uint8_t { prefilling, decoding, ended };

  explicit Sequence(SequenceSpec spec);

  SequenceId id() const { return spec_.id; }
  const SequenceSpec& spec() const { return spec_; }
  Phase phase() const { return phase_; }
  std::int32_t length() const { return length_; }      // tokens to prefill
  std::int32_t progress() const { return progress_; }  // tokens run: state and KV cover them
  std::int32_t prefill_left() const { return length_ - progress_; }
  std::int32_t generated() const { return generated_; }
  bool publishes() const { return spec_.lease.publish; }
  bool cancelled() const { return cancelled_; }
  void cancel() { cancelled_ = true; }

  /// Rows that the blocks held and reserved allow from here.
  std::int32_t rows_covered() const;
  /// Blocks beyond those to reach the end of the answer, at most `ahead` of them; 0 while more
  /// than one block is still ahead of it.
  std::int32_t blocks_wanted(std::int32_t ahead) const;
  void give_block(KvBlockRef block);
  /// The blocks nobody else holds, of a sequence that is about to go.
  std::vector<KvBlockRef> surrender_blocks();
  bool restored() const { return restored_; }
  /// Before the first step: the state at the resume point, and the slots of a block that is
  /// shared in part.
  void restore(model::Backend& backend);

  /// The next `rows` tokens; needs rows <= rows_covered(). Valid until advance().
  model::StepSlice slice(std::int32_t rows);
  /// The slice was run: appends the states saved on the way.
  void advance(std::int32_t rows, std::vector<SavedState>& saved);
  /// Whether the answer goes on at all: false at max_new or the context's end.
  bool may_sample() const;
  const model::TokenHistory* history() const { return history_.get(); }
  /// The answer's next token. The phase becomes decoding, or ended with `reason` set; true when
  /// it is a stop token.
  bool append(std::int32_t token, EndReason* reason);
  void end() { phase_ = Phase::ended; }

  /// See BatchLoop::add_save.
  bool add_save(PlannedSave save);
  /// The running state, given away; call once, when nothing more will run.
  SavedState hand_over(StateKind kind);
  /// Prompt and answer so far.
  TokenSeq all_tokens() const;

 private:
  void cover(std::int32_t position);  // takes reserved blocks until they hold [0, position)
  std::vector<KvBlockRef> blocks_to(std::int32_t position) const;

  SequenceSpec spec_;
  Phase phase_ = Phase::prefilling;
  bool cancelled_ = false;
  bool restored_ = false;
  std::int32_t length_ = 0;
  std::int32_t progress_ = 0;
  std::int32_t generated_ = 0;
  std::vector<std::int32_t> answer_;              // since admission
  std::unique_ptr<model::TokenHistory> history_;  // only when a penalty looks at it
  KvBlockRef shared_tail_;              // the block that holds the resume point, when inside one
  std::vector<KvBlockRef> blocks_;      // block i holds positions [16 i, 16 i + 16)
  std::vector<std::byte*> block_data_;  // of blocks_
  std::vector<PlannedSave> saves_;      // ascending; those before next_save_ are done
  std::size_t next_save_ = 0;
  std::vector<model::SavePoint> save_points_;  // of the running slice
};

}  // namespace cairn::engine
