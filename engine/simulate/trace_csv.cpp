// SPDX-License-Identifier: Apache-2.0
// Traces without tokens: how long each prompt is, and which earlier one it shares how much with.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "engine/simulate/trace_formats.hpp"

namespace cairn::engine {
namespace {

/// Request i's tokens are its parent's up to the overlap and then ids that nobody had before.
class ChainTrace final : public Trace {
 public:
  ChainTrace(std::vector<TraceRequest> requests, std::vector<std::int64_t> first_fresh)
      : Trace(std::move(requests)), first_fresh_(std::move(first_fresh)) {}

  // Each row of the chain owns the tokens past its own overlap, so that no prompt but the one asked
  // for is ever built.
  Tokens tokens(std::size_t i) const override {
    const std::int32_t length = (*this)[i].length;
    auto out = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(length));
    std::int32_t end = length;
    for (std::size_t row = i; end > 0; row = static_cast<std::size_t>((*this)[row].parent)) {
      const std::int32_t begin = (*this)[row].overlap;
      if (begin >= end) continue;
      std::iota(out->begin() + begin, out->begin() + end,
                static_cast<std::int32_t>(first_fresh_[row]));
      end = begin;
    }
    return out;
  }

 private:
  std::vector<std::int64_t> first_fresh_;  // id at the overlap, by request
};

// Commas inside double quotes belong to the cell.
void split_cells(std::string_view line, std::vector<std::string_view>& cells) {
  cells.clear();
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') inside = !inside;
    if (i < line.size() && (line[i] != ',' || inside)) continue;
    std::string_view cell = line.substr(begin, i - begin);
    while (cell.starts_with(' ') || cell.starts_with('"')) cell.remove_prefix(1);
    while (cell.ends_with(' ') || cell.ends_with('"')) cell.remove_suffix(1);
    cells.push_back(cell);
    begin = i + 1;
  }
}

class CsvReader {
 public:
  CsvReader(TraceLines& lines, const std::string& header) : lines_(lines) {
    split_cells(header, cells_);
    columns_ = cells_.size();
    length_ = require("prompt_tokens");
    overlap_ = require("overlap_tokens");
    parent_ = require("parent");
    time_ = find("t_ms");
    output_ = find("output_tokens");
  }

  std::unique_ptr<const Trace> read() {
    std::string line;
    while (lines_.next(line)) read_row(line);
    if (requests_.empty()) lines_.fail("rows below the header");
    return chain_trace(std::move(requests_));
  }

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  std::size_t find(std::string_view name) const {
    const auto at = std::find(cells_.begin(), cells_.end(), name);
    return at == cells_.end() ? kAbsent : static_cast<std::size_t>(at - cells_.begin());
  }
  std::size_t require(std::string_view name) const {
    const std::size_t at = find(name);
    if (at != kAbsent) return at;
    lines_.fail(name,
                "a CSV header with prompt_tokens, overlap_tokens and parent, or a JSON line, got " +
                    quoted(cells_.front()));
  }

  std::int64_t integer(std::size_t column, std::string_view field, std::int64_t low,
                       std::int64_t high, const char* what) const {
    const std::string_view cell = cells_[column];
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error == std::errc{} && end == cell.data() + cell.size() && value >= low && value <= high) {
      return value;
    }
    lines_.fail(field, "an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                           what + ", got " + quoted(cell));
  }

  double milliseconds(std::size_t column) const {
    const std::string_view cell = cells_[column];
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error == std::errc{} && end == cell.data() + cell.size() && value >= 0 &&
        std::isfinite(value)) {
      return value;
    }
    lines_.fail("t_ms", "milliseconds of at least 0, got " + quoted(cell));
  }

  void read_row(const std::string& line) {
    split_cells(line, cells_);
    if (cells_.size() != columns_) {
      lines_.fail(std::to_string(columns_) + " columns as in the header, got " +
                  std::to_string(cells_.size()));
    }
    const auto row = std::ssize(requests_);
    TraceRequest r;
    r.length = static_cast<std::int32_t>(integer(length_, "prompt_tokens", 1, kMaxTracePrompt, ""));
    r.overlap = static_cast<std::int32_t>(
        integer(overlap_, "overlap_tokens", 0, r.length, " (prompt_tokens)"));
    r.parent =
        static_cast<std::int32_t>(integer(parent_, "parent", -1, row - 1, " (this row - 1)"));
    check_overlap(r);
    if (time_ != kAbsent) r.arrival_seconds = milliseconds(time_) / 1000;
    if (output_ != kAbsent) {
      r.output_tokens =
          static_cast<std::int32_t>(integer(output_, "output_tokens", 0, kMaxTracePrompt, ""));
    }
    used_ids_ += r.length - r.overlap;
    if (used_ids_ > kMaxTraceIds) {
      lines_.fail("prompt_tokens",
                  "at most " + std::to_string(kMaxTraceIds) + " tokens past the overlaps in all");
    }
    requests_.push_back(r);
  }

  void check_overlap(const TraceRequest& r) const {
    const std::int32_t most =
        r.parent < 0 ? 0 : requests_[static_cast<std::size_t>(r.parent)].length;
    if (r.overlap > most) {
      lines_.fail("overlap_tokens", "at most the parent's " + std::to_string(most) +
                                        " tokens, got " + std::to_string(r.overlap));
    }
  }

  TraceLines& lines_;
  std::vector<std::string_view> cells_;  // of the line being read
  std::size_t columns_ = 0;
  std::size_t length_ = 0, overlap_ = 0, parent_ = 0, time_ = 0, output_ = 0;
  std::vector<TraceRequest> requests_;
  std::int64_t used_ids_ = 0;
};

}  // namespace

std::unique_ptr<const Trace> chain_trace(std::vector<TraceRequest> requests) {
  std::vector<std::int64_t> first_fresh;
  std::int64_t used = 0;
  for (const TraceRequest& r : requests) {
    const auto row = std::ssize(first_fresh);
    check(r.length >= 1 && r.overlap >= 0 && r.overlap <= r.length,
          "an overlap outside its prompt");
    check(r.parent >= -1 && r.parent < row, "a parent that is not earlier");
    check(r.overlap <= (r.parent < 0 ? 0 : requests[static_cast<std::size_t>(r.parent)].length),
          "an overlap longer than the parent");
    first_fresh.push_back(used);
    used += r.length - r.overlap;
    check(used <= kMaxTraceIds, "more fresh tokens than there are ids");
  }
  return std::make_unique<ChainTrace>(std::move(requests), std::move(first_fresh));
}

std::unique_ptr<const Trace> read_trace_csv(TraceLines& lines, const std::string& header) {
  return CsvReader(lines, header).read();
}

}  // namespace cairn::engine
