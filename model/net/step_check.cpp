// SPDX-License-Identifier: Apache-2.0
#include "model/net/step_check.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace cairn::model {
namespace {

/// Collects addresses and judges them together: tables of long contexts have thousands.
class Addresses {
 public:
  Addresses(std::size_t alignment, std::span<const std::byte> memory)
      : alignment_(alignment),
        first_(memory.empty() ? 1 : reinterpret_cast<std::uintptr_t>(memory.data())),
        last_(memory.empty() ? UINTPTR_MAX : first_ + memory.size() - 1) {}

  void add(const std::byte* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    bits_ |= address;
    least_ = std::min(least_, address);
    most_ = std::max(most_, address);
  }
  bool good() const {
    return bits_ % alignment_ == 0 && least_ >= first_ && (most_ <= last_ || most_ == 0);
  }

 private:
  std::size_t alignment_;
  std::uintptr_t first_, last_;
  std::uintptr_t bits_ = 0;
  std::uintptr_t least_ = UINTPTR_MAX;
  std::uintptr_t most_ = 0;
};

void check_slice(const StepSlice& s, const StepLimits& limits, Addresses& blocks,
                 Addresses& states) {
  const auto n = static_cast<std::int64_t>(s.tokens.size());
  const std::int64_t end = s.position + n;
  check(n >= 1, "step: a slice has no tokens");
  check(s.position >= 0 && end <= limits.context, "step: position out of range");
  check(s.state != nullptr, "step: a slice has no state");
  states.add(s.state);
  check(s.logits_from >= -1 && s.logits_from < n, "step: logits_from outside the slice");
  const std::int64_t needed = (end + kBlockTokens - 1) / kBlockTokens;
  check(static_cast<std::int64_t>(s.kv_blocks.size()) >= needed, "step: too few KV blocks");
  for (std::byte* const block : s.kv_blocks.first(static_cast<std::size_t>(needed))) {
    blocks.add(block);
  }
  for (const std::int32_t token : s.tokens) {
    check(token >= 0 && token < limits.vocab, "step: token id outside the vocabulary");
  }
  std::int64_t before = s.position;
  for (const SavePoint& save : s.saves) {
    check(save.position > before && save.position <= end && save.state != nullptr,
          "step: save points are not ascending positions inside the slice");
    states.add(save.state);
    before = save.position;
  }
}

}  // namespace

void check_step(std::span<const StepSlice> slices, const StepLimits& limits) {
  check(slices.size() <= static_cast<std::size_t>(limits.slices),
        "step: more slices than max_slices");
  Addresses blocks(limits.kv_alignment, limits.memory);
  Addresses states(limits.state_alignment, limits.memory);
  std::int64_t rows = 0;
  for (const StepSlice& s : slices) {
    check_slice(s, limits, blocks, states);
    rows += static_cast<std::int64_t>(s.tokens.size());
  }
  check(rows <= limits.rows, "step: more rows than max_step_tokens");
  check(blocks.good(), "step: a KV block is null, misaligned or outside the pool's memory");
  check(states.good(), "step: a state is misaligned or outside the pool's memory");
}

std::int64_t wanted_logits(std::span<const StepSlice> slices) {
  std::int64_t wanted = 0;
  for (const StepSlice& s : slices) {
    if (s.logits_from >= 0) wanted += static_cast<std::int64_t>(s.tokens.size()) - s.logits_from;
  }
  return wanted;
}

}  // namespace cairn::model
