// SPDX-License-Identifier: Apache-2.0
// Traces of token ids, a prompt a line.
#include <limits>

#include "engine/simulate/trace_formats.hpp"

namespace cairn::engine {
namespace {

class TokenTrace final : public Trace {
 public:
  TokenTrace(std::vector<TraceRequest> requests, std::vector<Tokens> prompts)
      : Trace(std::move(requests)), prompts_(std::move(prompts)) {}
  Tokens tokens(std::size_t i) const override { return prompts_[i]; }

 private:
  std::vector<Tokens> prompts_;
};

Trace::Tokens read_ids(const TraceLines& lines, std::string_view field, const json::Value& ids) {
  if (!ids.is(json::Kind::array) || ids.items().empty()) {
    lines.fail(field, "an array of at least one token id");
  }
  if (std::ssize(ids.items()) > kMaxTracePrompt) {
    lines.fail(field, "at most " + std::to_string(kMaxTracePrompt) + " token ids");
  }
  auto tokens = std::make_shared<std::vector<std::int32_t>>();
  tokens->reserve(ids.items().size());
  for (const json::Value& id : ids.items()) {
    tokens->push_back(static_cast<std::int32_t>(
        integer_field(lines, field, id, 0, std::numeric_limits<std::int32_t>::max())));
  }
  return tokens;
}

Trace::Tokens read_prompt(const TraceLines& lines, const json::Value& line) {
  if (line.is(json::Kind::array)) return read_ids(lines, "[]", line);
  for (const char* field : {"tokens", "prompt_token_ids"}) {
    if (const json::Value* ids = line.find(field)) return read_ids(lines, field, *ids);
  }
  lines.fail("an array of token ids or an object with tokens, prompt_token_ids or hash_ids");
}

}  // namespace

std::unique_ptr<const Trace> read_token_lines(TraceLines& lines, std::string first) {
  std::vector<TraceRequest> requests;
  std::vector<Trace::Tokens> prompts;
  std::string line = std::move(first);
  do {
    const json::Value value = parse_line(lines, line);
    prompts.push_back(read_prompt(lines, value));
    TraceRequest& request = requests.emplace_back();
    request.length = static_cast<std::int32_t>(prompts.back()->size());
    read_optional_fields(lines, value, request);
  } while (lines.next(line));
  return std::make_unique<TokenTrace>(std::move(requests), std::move(prompts));
}

}  // namespace cairn::engine
