// SPDX-License-Identifier: Apache-2.0
#include "model/text/chat.hpp"

#include <algorithm>
#include <ctime>

#include "base/check.hpp"
#include "model/text/jinja.hpp"

namespace cairn::text {
namespace {

using jinja::Origin;
using jinja::OriginText;
using jinja::Variable;

std::shared_ptr<const jinja::Template> parse(std::string_view source, std::string_view name) {
  Result<jinja::Template> parsed = jinja::Template::parse(source);
  if (!parsed.ok()) throw LoadError(std::string(name) + ": " + parsed.error().message);
  return std::make_shared<const jinja::Template>(parsed.take());
}

void add_members(std::vector<Variable>& variables, const json::Value& object, Origin origin) {
  for (const auto& [name, value] : object.members()) variables.push_back({name, value, origin});
}

std::vector<std::size_t> find_markers(const OriginText& text, const std::string& marker) {
  std::vector<std::size_t> starts;
  if (marker.empty()) return starts;
  for (std::size_t at = 0; (at = text.view().find(marker, at)) != std::string_view::npos;
       at += marker.size()) {
    if (text.all_template(at, at + marker.size())) starts.push_back(at);
  }
  return starts;
}

// Where the generation prompt begins: what the rendering with it adds to the one without. When that
// is no pure addition (or cannot be rendered at all), the last message that both have in common
// ends there.
std::size_t find_generation_prompt(const RenderedChat& with, const Result<OriginText>& without) {
  if (!without.ok()) return with.message_starts.empty() ? 0 : with.message_starts.back();
  const std::string& plain = without->bytes();
  const std::size_t shared = std::min(plain.size(), with.text.size());
  const auto common = static_cast<std::size_t>(
      std::mismatch(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(shared),
                    with.text.begin())
          .first -
      plain.begin());
  if (common == plain.size()) return common;
  const auto& starts = with.message_starts;
  const auto behind = std::upper_bound(starts.begin(), starts.end(), common);
  return behind == starts.begin() ? 0 : *(behind - 1);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, ChatTemplateOptions options,
                           std::string_view name)
    : plain_(parse(source, name)),
      with_tools_(plain_),
      options_(std::make_shared<const ChatTemplateOptions>(std::move(options))) {}

ChatTemplate::ChatTemplate(std::string_view source, std::string_view tools_source,
                           ChatTemplateOptions options, std::string_view name)
    : plain_(parse(source, name)),
      with_tools_(parse(tools_source, name)),
      options_(std::make_shared<const ChatTemplateOptions>(std::move(options))) {}

Result<RenderedChat> ChatTemplate::render(const json::Value& messages, const json::Value* tools,
                                          const RenderOptions& options) const {
  const bool has_tools = tools != nullptr && !tools->items().empty();
  std::vector<Variable> variables;
  add_members(variables, options_->defaults, Origin::from_template);
  for (const auto& [name, value] : options_->constants) {
    variables.push_back({name, json::Value::string(value), Origin::from_template});
  }
  add_members(variables, options.extra, Origin::data);
  if (options.enable_thinking) {
    variables.push_back(
        {"enable_thinking", json::Value::boolean(*options.enable_thinking), Origin::data});
  }
  variables.push_back({"documents", json::Value(), Origin::data});
  if (const json::Value* documents = options.extra.find("documents"))
    variables.back().value = *documents;
  variables.push_back({"messages", messages, Origin::data});
  variables.push_back({"tools", has_tools ? *tools : json::Value(), Origin::data});
  variables.push_back(
      {"add_generation_prompt", json::Value::boolean(options.add_generation_prompt), Origin::data});

  const jinja::Template& used = has_tools ? *with_tools_ : *plain_;
  const std::time_t now = std::time(nullptr);
  const Result<OriginText> text = used.render(variables, options_->limits, now);
  if (!text.ok()) return text.error();

  RenderedChat chat;
  chat.text = text->bytes();
  std::size_t begin = 0;
  for (const OriginText::Run& run : text->runs()) {
    chat.segments.push_back({run.end - begin, run.origin == Origin::from_template});
    begin = run.end;
  }
  chat.message_starts = find_markers(*text, options_->message_marker);
  chat.generation_prompt = chat.text.size();
  if (options.add_generation_prompt) {
    variables.back().value = json::Value::boolean(false);
    chat.generation_prompt =
        find_generation_prompt(chat, used.render(variables, options_->limits, now));
  }
  return chat;
}

std::vector<Segment> prompt_segments(const RenderedChat& chat) {
  std::vector<Segment> segments;
  std::size_t at = 0;
  for (const RenderedSegment& segment : chat.segments) {
    segments.push_back(
        {std::string_view(chat.text).substr(at, segment.bytes), segment.from_template});
    at += segment.bytes;
  }
  return segments;
}

}  // namespace cairn::text
