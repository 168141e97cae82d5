// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/trace.hpp"

#include <cmath>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "engine/simulate/trace_formats.hpp"

namespace cairn::engine {

json::Value parse_line(const TraceLines& lines, std::string_view line) {
  auto value = json::parse(line);
  if (!value) lines.fail("one JSON document a line: " + value.error().message);
  return value.take();
}

std::int64_t integer_field(const TraceLines& lines, std::string_view field, const json::Value& v,
                           std::int64_t low, std::int64_t high) {
  if (v.is_integer() && v.as_int() >= low && v.as_int() <= high) return v.as_int();
  const std::string got = v.is(json::Kind::number) ? quoted(v.text()) : "no number";
  lines.fail(field, "an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                        ", got " + got);
}

void read_optional_fields(const TraceLines& lines, const json::Value& line, TraceRequest& request) {
  if (const json::Value* output = line.find("output_length")) {
    request.output_tokens = static_cast<std::int32_t>(
        integer_field(lines, "output_length", *output, 0, kMaxTracePrompt));
  }
  if (const json::Value* time = line.find("timestamp")) {
    const double ms = time->as_double();
    if (!time->is(json::Kind::number) || !(ms >= 0) || !std::isfinite(ms)) {
      lines.fail("timestamp", "milliseconds of at least 0");
    }
    request.arrival_seconds = ms / 1000;
  }
}

std::unique_ptr<const Trace> read_trace(const std::string& path, const TraceOptions& options) {
  if (options.block_size < 1 || options.block_size > kMaxTracePrompt) {
    throw LoadError("block size: expected 1 to " + std::to_string(kMaxTracePrompt) + " tokens");
  }
  TraceLines lines(path);
  std::string first;
  if (!lines.next(first)) throw LoadError(path + ": expected requests, but there is no line");
  const char start = first[first.find_first_not_of(" \t")];
  if (start != '{' && start != '[') return read_trace_csv(lines, first);
  if (parse_line(lines, first).find("hash_ids")) {
    return read_hash_lines(lines, std::move(first), options.block_size);
  }
  return read_token_lines(lines, std::move(first));
}

}  // namespace cairn::engine
