// SPDX-License-Identifier: Apache-2.0
// Where a model directory keeps its chat template.
#include <fstream>
#include <optional>
#include <sstream>

#include "base/check.hpp"
#include "model/text/chat.hpp"

namespace cairn::text {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw LoadError(path.string() + ": cannot be read");
  return std::move(text).str();
}

// A special token is written as its text, or as an object with the text in `content`.
const std::string* token_text(const json::Value& value) {
  if (value.is(json::Kind::string)) return &value.text();
  const json::Value* content = value.find("content");
  return content != nullptr && content->is(json::Kind::string) ? &content->text() : nullptr;
}

void add_special_tokens(const json::Value& config, ChatTemplateOptions& options) {
  for (const auto& [name, value] : config.members()) {
    constexpr std::string_view kSuffix = "_token";
    if (name.size() <= kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix)
      continue;
    const std::string* text = token_text(value);
    bool known = false;
    for (const auto& [given, unused] : options.constants) known = known || given == name;
    if (text != nullptr && !known) options.constants.emplace_back(name, *text);
  }
}

const std::string* named_template(const json::Value& list, std::string_view name) {
  for (const json::Value& entry : list.items()) {
    const json::Value* key = entry.find("name");
    const json::Value* text = entry.find("template");
    if (key != nullptr && key->text() == name && text != nullptr && text->is(json::Kind::string))
      return &text->text();
  }
  return nullptr;
}

}  // namespace

ChatTemplate ChatTemplate::load(const fs::path& model_dir, ChatTemplateOptions options) {
  const fs::path config_path = model_dir / "tokenizer_config.json";
  json::Value config;
  if (const auto text = read_file(config_path)) {
    Result<json::Value> parsed = json::parse(*text);
    if (!parsed.ok()) throw LoadError(config_path.string() + ": " + parsed.error().message);
    config = parsed.take();
    add_special_tokens(config, options);
  }
  const fs::path template_path = model_dir / "chat_template.jinja";
  if (const auto source = read_file(template_path)) {
    return ChatTemplate(*source, std::move(options), template_path.string());
  }
  const std::string name = config_path.string() + ": chat_template";
  const json::Value* found = config.find("chat_template");
  if (found == nullptr || found->is(json::Kind::null)) {
    throw LoadError(model_dir.string() +
                    ": no chat_template.jinja and no chat_template in tokenizer_config.json");
  }
  if (found->is(json::Kind::string)) return ChatTemplate(found->text(), std::move(options), name);
  const std::string* plain = named_template(*found, "default");
  const std::string* tools = named_template(*found, "tool_use");
  if (plain == nullptr && tools == nullptr) {
    throw LoadError(name + ": expected a string, or a list with an entry named \"default\"");
  }
  if (plain == nullptr) plain = tools;
  return ChatTemplate(*plain, tools != nullptr ? *tools : *plain, std::move(options), name);
}

}  // namespace cairn::text
