// SPDX-License-Identifier: Apache-2.0
#include "engine/request/cache_marks.hpp"

#include <algorithm>
#include <utility>

namespace cairn::engine {
namespace {

using json::Kind;
using json::Value;

constexpr const char* kField = "cache_control";

Error bad(const std::string& param, const std::string& what) {
  return {ErrorCode::bad_request, param + " " + what, param};
}

const Value* mark_of(const Value& holder) {
  const Value* mark = holder.find(kField);
  return mark != nullptr && !mark->is(Kind::null) ? mark : nullptr;
}

// Counts the holder's mark, if it has one.
Status count(const Value& holder, const std::string& where, std::size_t& marks) {
  const Value* mark = mark_of(holder);
  if (mark == nullptr) return ok_status();
  const std::string param = where + "." + kField;
  const Value* type = mark->find("type");
  if (type == nullptr || !type->is(Kind::string) || type->text() != "ephemeral")
    return bad(param, "must be {\"type\": \"ephemeral\"}.");
  const Value* ttl = mark->find("ttl");
  if (ttl != nullptr && !ttl->is(Kind::null) && !ttl->is(Kind::string))
    return bad(param + ".ttl", "must be a string.");
  if (++marks > kMaxCacheMarks)
    return bad(param, "is one too many: a request may mark at most " +
                          std::to_string(kMaxCacheMarks) + " places.");
  return ok_status();
}

void set_member(json::Object& members, const std::string& name, Value value) {
  for (auto& [key, old] : members) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  members.emplace_back(name, std::move(value));
}

Value text_part(std::string text) {
  return Value::object({{"type", Value::string("text")}, {"text", Value::string(std::move(text))}});
}

// The content as parts, each marked one followed by its sign.
json::Array signed_parts(const Value& content, const MarkSigns& signs) {
  if (content.is(Kind::string)) return {text_part(content.text())};
  json::Array parts;
  for (const Value& part : content.items()) {
    parts.push_back(part);
    if (mark_of(part) != nullptr) parts.push_back(text_part(signs.part));
  }
  return parts;
}

}  // namespace

std::optional<MarkSigns> unused_signs(std::string_view text) {
  // U+FDD0 to U+FDEF: for a program's own use, never in text that is exchanged.
  std::vector<std::string> unused;
  for (int last = 0x90; last <= 0xAF && unused.size() < 2; ++last) {
    std::string sign = {'\xEF', '\xB7', static_cast<char>(last)};
    if (text.find(sign) == std::string_view::npos) unused.push_back(std::move(sign));
  }
  if (unused.size() < 2) return std::nullopt;
  return MarkSigns{unused[0], unused[1]};
}

Result<std::size_t> count_marks(const Value& messages) {
  std::size_t marks = 0;
  for (std::size_t i = 0; i < messages.items().size(); ++i) {
    const Value& message = messages.items()[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (auto status = count(message, where, marks); !status) return status.error();
    const Value* content = message.find("content");
    if (content == nullptr) continue;
    for (std::size_t j = 0; j < content->items().size(); ++j) {
      const std::string part = where + ".content[" + std::to_string(j) + "]";
      if (auto status = count(content->items()[j], part, marks); !status) return status.error();
    }
  }
  return marks;
}

Value with_signs(const Value& messages, const MarkSigns& signs) {
  json::Array out;
  for (const Value& message : messages.items()) {
    const Value* content = message.find("content");
    json::Array parts = signed_parts(content != nullptr ? *content : Value(), signs);
    if (mark_of(message) != nullptr) parts.push_back(text_part(signs.message));
    json::Object members = message.members();
    // Without parts the content was null or empty, which a template may tell from "".
    if (!parts.empty()) set_member(members, "content", Value::array(std::move(parts)));
    out.push_back(Value::object(std::move(members)));
  }
  return Value::array(std::move(out));
}

std::vector<std::size_t> marked_bytes(const text::RenderedChat& plain, std::string_view signed_text,
                                      const MarkSigns& signs) {
  std::vector<std::size_t> places;
  const std::string& text = plain.text;
  const auto next_message = [&](std::size_t byte) {
    const auto next =
        std::lower_bound(plain.message_starts.begin(), plain.message_starts.end(), byte);
    return next == plain.message_starts.end() ? text.size() : *next;
  };
  std::size_t at = 0;  // in text: what stands before agrees
  while (!signed_text.empty()) {
    if (signed_text.starts_with(signs.part)) {
      places.push_back(at);
      signed_text.remove_prefix(signs.part.size());
    } else if (signed_text.starts_with(signs.message)) {
      places.push_back(next_message(at));
      signed_text.remove_prefix(signs.message.size());
    } else {
      // What only this text has is space that a template trims where no sign ends it.
      if (at < text.size() && text[at] == signed_text.front()) ++at;
      signed_text.remove_prefix(1);
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace cairn::engine
