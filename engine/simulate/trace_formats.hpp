// SPDX-License-Identifier: Apache-2.0
// The readers behind read_trace(), one a format. Each takes the lines from the one given on, which
// has been read already.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "engine/simulate/trace.hpp"
#include "engine/simulate/trace_lines.hpp"

namespace cairn::engine {

/// Longest prompt of a trace; a larger number is a mistake in the file, not a prompt.
inline constexpr std::int64_t kMaxTracePrompt = 1 << 24;
/// Ids that renaming may use.
inline constexpr std::int64_t kMaxTraceIds = 0x7FFF'FFFF;

std::unique_ptr<const Trace> read_token_lines(TraceLines& lines, std::string first);
std::unique_ptr<const Trace> read_hash_lines(TraceLines& lines, std::string first,
                                             std::int64_t block_size);
std::unique_ptr<const Trace> read_trace_csv(TraceLines& lines, const std::string& header);

/// The JSON document of one line.
json::Value parse_line(const TraceLines& lines, std::string_view line);
/// An integer field in [low, high].
std::int64_t integer_field(const TraceLines& lines, std::string_view field, const json::Value& v,
                           std::int64_t low, std::int64_t high);
/// "timestamp" (milliseconds) and "output_length" of a JSON line, where it has them.
void read_optional_fields(const TraceLines& lines, const json::Value& line, TraceRequest& request);

}  // namespace cairn::engine
