// SPDX-License-Identifier: Apache-2.0
// A model's chat template: turns a conversation into prompt text whose every byte knows whether the
// template or the client wrote it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "model/text/tokenizer.hpp"

namespace cairn::text {

namespace jinja {
class Template;
}

/// Bounds of one rendering. A template that exceeds one fails with an error that names it.
struct RenderLimits {
  std::size_t max_steps = 50'000'000;        // evaluated nodes plus bytes and items touched, scaled
  std::size_t max_depth = 400;               // nesting of calls, loops and expressions
  std::size_t max_output_bytes = 64U << 20;  // rendered text
  std::size_t max_string_bytes = 64U << 20;  // any one string
  std::size_t max_memory_bytes = 512U << 20;  // all values alive at once
  std::size_t max_range_items = 1'000'000;    // items of one range() that is walked
};

/// A stretch of the rendered text. Only a `from_template` stretch may spell special tokens; the
/// marker of a message body that spells `<|im_start|>` is ordinary text.
struct RenderedSegment {
  std::size_t bytes = 0;
  bool from_template = false;
};

/// A rendered conversation. Segments concatenate to `text`, none is empty, neighbours differ in
/// origin.
struct RenderedChat {
  std::string text;
  std::vector<RenderedSegment> segments;
  /// Offsets of each message marker (`<|im_start|>`) that the template wrote, the generation
  /// prompt's included.
  std::vector<std::size_t> message_starts;
  /// Where the text begins that add_generation_prompt appends; text.size() when it was not asked
  /// for. Everything before it is what the next turn of the same conversation repeats (as far as
  /// the template does).
  std::size_t generation_prompt = 0;
};

struct RenderOptions {
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;  // unset: the template's own default
  json::Value extra;                    // object of further template variables, or null
};

struct ChatTemplateOptions {
  std::string message_marker = "<|im_start|>";
  /// Variables the model's files define (bos_token, ...); their text counts as the template's.
  std::vector<std::pair<std::string, std::string>> constants;
  /// Variables of the server's configuration, lower in rank than a request's (e.g.
  /// thinking_default).
  json::Value defaults;
  RenderLimits limits;
};

/// A parsed chat template. Immutable after construction and safe to use from any thread; copies
/// share.
class ChatTemplate {
 public:
  /// Throws LoadError naming `name`, the line and the construct when the source cannot be parsed.
  explicit ChatTemplate(std::string_view source, ChatTemplateOptions options = {},
                        std::string_view name = "chat template");

  /// Takes `chat_template.jinja`, else `tokenizer_config.json`'s chat_template (a string, or a list
  /// of named ones: "default", and "tool_use" for requests with tools). Special tokens named in
  /// tokenizer_config.json become constants. Throws LoadError when there is none or it cannot be
  /// parsed.
  static ChatTemplate load(const std::filesystem::path& model_dir,
                           ChatTemplateOptions options = {});

  /// Renders messages as they are (see normalise_messages). `tools` may be null. Errors are
  /// bad_request with the template's own message where it raised one.
  Result<RenderedChat> render(const json::Value& messages, const json::Value* tools,
                              const RenderOptions& options = {}) const;

 private:
  ChatTemplate(std::string_view source, std::string_view tools_source, ChatTemplateOptions options,
               std::string_view name);

  std::shared_ptr<const jinja::Template> plain_;
  std::shared_ptr<const jinja::Template> with_tools_;  // never null; often the same
  std::shared_ptr<const ChatTemplateOptions> options_;
};

/// The chat as the tokenizer takes it; views into `chat.text`.
std::vector<Segment> prompt_segments(const RenderedChat& chat);

/// Brings OpenAI-style messages into the form templates expect: content parts joined to one string,
/// `developer` as `system`, null content beside tool calls as "", string arguments of tool calls
/// parsed. Unknown fields stay. The error names the message index.
Result<json::Value> normalise_messages(const json::Value& messages);

}  // namespace cairn::text
