// SPDX-License-Identifier: Apache-2.0
#include "tests/support/exactness.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace cairn::testing {
namespace {

using Tokens = std::vector<std::int32_t>;
using Bytes = std::vector<std::byte>;

constexpr std::int32_t kBlock = model::kBlockTokens;

Tokens random_tokens(std::mt19937_64& random, std::int32_t n, std::int32_t vocab) {
  Tokens out(static_cast<std::size_t>(n));
  for (auto& t : out) t = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  return out;
}

std::span<const std::int32_t> part(const Tokens& tokens, std::int32_t begin, std::int32_t end) {
  return std::span(tokens).subspan(static_cast<std::size_t>(begin),
                                   static_cast<std::size_t>(end - begin));
}

/// What a run of a whole prompt leaves: everything that has to be equal.
struct Outcome {
  std::vector<float> logits;  // [rows, vocab], of the rows from `first_row` on
  std::int32_t first_row = 0;
  Bytes state;
  Bytes kv;
};

Outcome outcome_of(const DrivenSequence& sequence, std::vector<float> logits,
                   std::int32_t first_row = 0) {
  return {std::move(logits), first_row, sequence.state_bytes(), sequence.kv_bytes()};
}

// "" when `got` equals the end of `whole`.
std::string difference(const Outcome& whole, const Outcome& got, std::int32_t vocab) {
  const auto skip =
      static_cast<std::size_t>(got.first_row - whole.first_row) * static_cast<std::size_t>(vocab);
  for (std::size_t i = 0; i < got.logits.size(); ++i) {
    if (std::memcmp(&got.logits[i], &whole.logits[skip + i], sizeof(float)) != 0) {
      return "logit " + std::to_string(i % static_cast<std::size_t>(vocab)) + " of row " +
             std::to_string(static_cast<std::size_t>(got.first_row) +
                            i / static_cast<std::size_t>(vocab)) +
             " is " + std::to_string(got.logits[i]) + ", not " +
             std::to_string(whole.logits[skip + i]);
    }
  }
  const auto first_other = [](const Bytes& a, const Bytes& b) {
    return std::to_string(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  };
  if (got.state != whole.state)
    return "states differ at byte " + first_other(got.state, whole.state);
  if (got.kv != whole.kv) return "keys or values differ at byte " + first_other(got.kv, whole.kv);
  return "";
}

class Suite {
 public:
  Suite(const MakeBackend& make, const ExactnessOptions& options, const DeviceMemory& memory)
      : make_(make), options_(options), memory_(memory), random_(options.seed), backend_(make(1)) {
    vocab_ = backend_->config().vocab_size;
    short_ = random_tokens(random_, options.short_tokens, vocab_);
    long_ = random_tokens(random_, options.long_tokens, vocab_);
  }

  ExactnessReport run() {
    whole_short_ = whole(*backend_, short_);
    whole_long_ = whole(*backend_, long_);
    threads();
    splits();
    unread_rows();
    decoding();
    batch();
    every_position();
    random_positions();
    return std::move(report_);
  }

  bool detects(bool in_keys) {
    const auto n = static_cast<std::int32_t>(short_.size());
    const std::int32_t at = n - 2;
    DrivenSequence first(*backend_, memory_);
    const auto saved = first.new_state();
    const std::vector<model::SavePoint> saves{{at, saved.get()}};
    std::vector<float> logits = first.run(short_, saves);
    const Outcome end = outcome_of(first, std::move(logits));
    DrivenSequence second = DrivenSequence::resume(first, at, saved.get());
    if (in_keys) {
      add_ulp_to_key(second, at);
    } else {
      add_ulp_to_largest(second);
    }
    Outcome got = finish(second, short_, at);
    if (in_keys) got.kv = end.kv;  // the changed key itself is no finding
    return !difference(end, got, vocab_).empty();
  }

 private:
  void record(const std::string& what, const std::string& difference) {
    ++report_.checks;
    if (!difference.empty()) report_.failures.push_back(what + ": " + difference + ".");
  }

  Outcome whole(model::Backend& backend, const Tokens& tokens) {
    DrivenSequence s(backend, memory_);
    std::vector<float> logits = s.run(tokens);
    return outcome_of(s, std::move(logits));
  }

  Outcome finish(DrivenSequence& s, const Tokens& tokens, std::int32_t from) {
    std::vector<float> logits = s.run(part(tokens, from, static_cast<std::int32_t>(tokens.size())));
    return outcome_of(s, std::move(logits), from);
  }

  void threads() {
    const auto two = make_(2);
    record("2 threads, short prompt", difference(whole_short_, whole(*two, short_), vocab_));
    record("2 threads, long prompt", difference(whole_long_, whole(*two, long_), vocab_));
    const auto three = make_(3);
    record("3 threads, short prompt", difference(whole_short_, whole(*three, short_), vocab_));
  }

  Outcome in_pieces(const Tokens& tokens, const std::vector<std::int32_t>& ends) {
    DrivenSequence s(*backend_, memory_);
    std::vector<float> logits;
    std::int32_t at = 0;
    for (const std::int32_t end : ends) {
      const std::vector<float> rows = s.run(part(tokens, at, end));
      logits.insert(logits.end(), rows.begin(), rows.end());
      at = end;
    }
    return outcome_of(s, std::move(logits));
  }

  void splits() {
    for (const bool is_long : {false, true}) {
      const Tokens& tokens = is_long ? long_ : short_;
      const auto n = static_cast<std::uint64_t>(tokens.size());
      for (std::int32_t i = 0; i < options_.splits; ++i) {
        std::vector<std::int32_t> ends{static_cast<std::int32_t>(n)};
        for (std::uint64_t cuts = 1 + random_() % 4; cuts > 0; --cuts) {
          ends.push_back(static_cast<std::int32_t>(1 + random_() % (n - 1)));
        }
        std::sort(ends.begin(), ends.end());
        ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
        std::string name = "split at";
        for (const std::int32_t end : ends) name += " " + std::to_string(end);
        record(name,
               difference(is_long ? whole_long_ : whole_short_, in_pieces(tokens, ends), vocab_));
      }
    }
  }

  // Rows whose logits nobody wants may be computed in part only; nothing else may change.
  void unread_rows() {
    for (const bool is_long : {false, true}) {
      const Tokens& tokens = is_long ? long_ : short_;
      const auto n = static_cast<std::int32_t>(tokens.size());
      for (const std::int32_t from : {-1, 1, n / 2, n - 1}) {
        DrivenSequence s(*backend_, memory_);
        const model::StepSlice slice = s.slice(tokens, from);
        backend_->step({&slice, 1});
        const model::StepLogits got = backend_->read_logits();
        std::vector<float> logits(got.data, got.data + static_cast<std::size_t>(got.rows) *
                                                           static_cast<std::size_t>(vocab_));
        s.advance();
        std::string what = "logits from row " + std::to_string(from);
        if (got.rows != (from < 0 ? 0 : n - from)) record(what, "wrong number of rows");
        record(what, difference(is_long ? whole_long_ : whole_short_,
                                outcome_of(s, std::move(logits), std::max(from, 0)), vocab_));
      }
    }
  }

  void decoding() {
    DrivenSequence s(*backend_, memory_);
    std::vector<float> logits;
    for (std::size_t i = 0; i < short_.size(); ++i) {
      const std::vector<float> row = s.run(std::span(short_).subspan(i, 1));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    record("token by token, short prompt",
           difference(whole_short_, outcome_of(s, std::move(logits)), vocab_));
    // The long prompt decodes its last tokens only, across the edge between two ranges of keys.
    const std::int32_t n = static_cast<std::int32_t>(long_.size());
    const std::int32_t from = std::max(1, std::min(505, n - 20));
    DrivenSequence l(*backend_, memory_);
    l.run(part(long_, 0, from));
    logits.clear();
    for (std::int32_t i = from; i < n; ++i) {
      const std::vector<float> row = l.run(part(long_, i, i + 1));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    record("token by token, long prompt",
           difference(whole_long_, outcome_of(l, std::move(logits), from), vocab_));
  }

  // Three sequences in each step: one prefilling, one decoding, one resuming the long prompt.
  void batch() {
    const auto two = make_(2);
    for (model::Backend* backend : {backend_.get(), two.get()}) {
      DrivenSequence a(*backend, memory_);
      DrivenSequence b(*backend, memory_);
      DrivenSequence c(*backend, memory_);
      const auto n = static_cast<std::int32_t>(short_.size());
      const auto m = static_cast<std::int32_t>(long_.size());
      a.run(part(short_, 0, n - 1));
      c.run(part(long_, 0, m / 3));
      const std::vector<model::StepSlice> slices{a.slice(part(short_, n - 1, n), 0),
                                                 b.slice(short_, 0),
                                                 c.slice(part(long_, m / 3, m), 0)};
      backend->step(slices);
      const model::StepLogits got = backend->read_logits();
      for (DrivenSequence* s : {&a, &b, &c}) s->advance();
      const auto rows = [&](std::int32_t begin, std::int32_t end) {
        return std::vector<float>(
            got.row(begin).data(),
            got.row(begin).data() + (end - begin) * static_cast<std::ptrdiff_t>(vocab_));
      };
      const std::string on = backend == two.get() ? " on 2 threads" : "";
      record("decoding row in a batch" + on,
             difference(whole_short_, outcome_of(a, rows(0, 1), n - 1), vocab_));
      record("short prompt in a batch" + on,
             difference(whole_short_, outcome_of(b, rows(1, 1 + n)), vocab_));
      record("long prompt in a batch" + on,
             difference(whole_long_, outcome_of(c, rows(1 + n, 1 + n + m - m / 3), m / 3), vocab_));
    }
  }

  // A state saved inside a prefill, its copy left by decoding, and a resume from it.
  void every_position() {
    const auto n = static_cast<std::int32_t>(short_.size());
    DrivenSequence first(*backend_, memory_);
    std::vector<std::shared_ptr<std::byte>> states;
    std::vector<model::SavePoint> saves;
    for (std::int32_t p = 1; p <= n; ++p) {
      states.push_back(first.new_state());
      saves.push_back({p, states.back().get()});
    }
    std::vector<float> logits = first.run(short_, saves);
    record("saving at every position",
           difference(whole_short_, outcome_of(first, std::move(logits)), vocab_));
    DrivenSequence decoded(*backend_, memory_);
    for (std::int32_t p = 1; p <= n; ++p) {
      const std::byte* saved = states[static_cast<std::size_t>(p - 1)].get();
      const auto by_decoding = first.new_state();
      const std::vector<model::SavePoint> one{{p, by_decoding.get()}};
      decoded.run(part(short_, p - 1, p), one);
      const std::string at = std::to_string(p);
      record("state left by decoding " + at + " tokens",
             first.bytes_of(saved) == decoded.state_bytes() &&
                     first.bytes_of(saved) == first.bytes_of(by_decoding.get())
                 ? ""
                 : "differs from the one saved by prefill");
      if (p == n) continue;
      DrivenSequence second = DrivenSequence::resume(first, p, saved);
      record("resumed at " + at, difference(whole_short_, finish(second, short_, p), vocab_));
    }
  }

  void random_positions() {
    const auto n = static_cast<std::uint64_t>(long_.size());
    std::vector<std::int32_t> positions{512};
    for (std::int32_t i = 0; i < options_.long_positions; ++i) {
      positions.push_back(static_cast<std::int32_t>(1 + random_() % (n - 1)));
    }
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    std::erase_if(positions, [&](std::int32_t p) { return p >= static_cast<std::int32_t>(n); });
    DrivenSequence first(*backend_, memory_);
    std::vector<std::shared_ptr<std::byte>> states;
    std::vector<model::SavePoint> saves;
    for (const std::int32_t p : positions) {
      states.push_back(first.new_state());
      saves.push_back({p, states.back().get()});
    }
    std::vector<float> logits = first.run(long_, saves);
    record("saving in a long prompt",
           difference(whole_long_, outcome_of(first, std::move(logits)), vocab_));
    for (const model::SavePoint& save : saves) {
      DrivenSequence second = DrivenSequence::resume(first, save.position, save.state);
      record("resumed at " + std::to_string(save.position) + " of a long prompt",
             difference(whole_long_, finish(second, long_, save.position), vocab_));
    }
  }

  void add_ulp_to_largest(DrivenSequence& s) {
    Bytes bytes = s.state_bytes();
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    // Among the first layer's matrices: the window behind them leaves the state after three tokens.
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(first_layer_floats());
    const auto largest = std::max_element(
        values.begin(), end, [](float a, float b) { return std::abs(a) < std::abs(b); });
    *largest = std::nextafter(*largest, INFINITY);
    memory_.write(values.data(), s.state(), bytes.size());
  }

  void add_ulp_to_key(DrivenSequence& s, std::int32_t at) {
    const std::size_t size = backend_->layout().kv_block_bytes;
    std::byte* const block = s.block(static_cast<std::size_t>((at - 1) / kBlock));
    Bytes bytes(size);
    memory_.read(block, bytes.data(), size);
    const auto used =
        std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
    *used ^= std::byte{1};
    memory_.write(bytes.data(), block, size);
  }

  std::size_t first_layer_floats() const {
    const model::ModelConfig& c = backend_->config();
    return static_cast<std::size_t>(c.linear_value_heads) *
           static_cast<std::size_t>(c.linear_key_dim) *
           static_cast<std::size_t>(c.linear_value_dim);
  }

  const MakeBackend& make_;
  ExactnessOptions options_;
  const DeviceMemory& memory_;
  std::mt19937_64 random_;
  std::unique_ptr<model::Backend> backend_;  // one thread
  std::int32_t vocab_ = 0;
  Tokens short_, long_;
  Outcome whole_short_, whole_long_;
  ExactnessReport report_;
};

}  // namespace

ExactnessReport check_exactness(const MakeBackend& make, const ExactnessOptions& options,
                                const DeviceMemory& memory) {
  return Suite(make, options, memory).run();
}

bool detects_one_ulp(const MakeBackend& make, bool in_keys, const ExactnessOptions& options,
                     const DeviceMemory& memory) {
  return Suite(make, options, memory).detects(in_keys);
}

}  // namespace cairn::testing
