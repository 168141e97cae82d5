// SPDX-License-Identifier: Apache-2.0
// From the forms OpenAI clients send to the one form chat templates read.
#include "model/text/chat.hpp"

namespace cairn::text {
namespace {

Error bad(std::size_t index, const std::string& what, const std::string& field) {
  const std::string at = "messages[" + std::to_string(index) + "]";
  return {ErrorCode::bad_request, at + ": " + what, field.empty() ? at : at + "." + field};
}

const char* kind_name(json::Kind kind) {
  constexpr const char* kNames[] = {"null",     "a boolean", "a number",
                                    "a string", "an array",  "an object"};
  return kNames[static_cast<std::size_t>(kind)];
}

Result<json::Value> join_parts(const json::Value& parts, std::size_t index) {
  std::string text;
  for (const json::Value& part : parts.items()) {
    if (part.is(json::Kind::string)) {
      text += part.text();
      continue;
    }
    const json::Value* type = part.find("type");
    if (type == nullptr || !type->is(json::Kind::string))
      return bad(index, "a content part needs a type", "content");
    if (type->text() != "text") {
      return bad(index, "content parts of type '" + type->text() + "' are not supported, only text",
                 "content");
    }
    const json::Value* content = part.find("text");
    if (content == nullptr || !content->is(json::Kind::string)) {
      return bad(index, "a text part needs a string 'text'", "content");
    }
    text += content->text();
  }
  return json::Value::string(std::move(text));
}

// A function's arguments, as an object.
Result<json::Value> parse_arguments(const json::Value& arguments, std::size_t index) {
  if (arguments.is(json::Kind::object)) return arguments;
  if (arguments.is(json::Kind::null)) return json::Value::object({});
  if (!arguments.is(json::Kind::string)) {
    return bad(index,
               std::string("tool call arguments must be an object or its JSON text, not ") +
                   kind_name(arguments.kind()),
               "tool_calls");
  }
  if (arguments.text().find_first_not_of(" \t\r\n") == std::string::npos)
    return json::Value::object({});
  Result<json::Value> parsed = json::parse(arguments.text());
  if (!parsed.ok())
    return bad(index, "tool call arguments are not valid JSON: " + parsed.error().message,
               "tool_calls");
  if (!parsed->is(json::Kind::object)) {
    return bad(
        index,
        std::string("tool call arguments must be a JSON object, not ") + kind_name(parsed->kind()),
        "tool_calls");
  }
  return parsed;
}

// A copy of an object with one member's value replaced.
template <class Change>
Result<json::Value> with_member(const json::Value& object, std::string_view name, Change change) {
  json::Object members = object.members();
  for (auto& [key, value] : members) {
    if (key != name) continue;
    Result<json::Value> changed = change(value);
    if (!changed.ok()) return changed;
    value = changed.take();
  }
  return json::Value::object(std::move(members));
}

Result<json::Value> normalise_calls(const json::Value& calls, std::size_t index) {
  if (!calls.is(json::Kind::array)) return calls;
  json::Array out;
  for (const json::Value& call : calls.items()) {
    if (!call.is(json::Kind::object))
      return bad(index, "a tool call must be an object", "tool_calls");
    const auto arguments = [&](const json::Value& value) { return parse_arguments(value, index); };
    Result<json::Value> fixed =
        call.find("function") == nullptr
            ? with_member(call, "arguments", arguments)
            : with_member(call, "function", [&](const json::Value& function) {
                return with_member(function, "arguments", arguments);
              });
    if (!fixed.ok()) return fixed;
    out.push_back(fixed.take());
  }
  return json::Value::array(std::move(out));
}

Result<json::Value> normalise_message(const json::Value& message, std::size_t index) {
  if (!message.is(json::Kind::object)) return bad(index, "a message must be an object", "");
  const json::Value* role = message.find("role");
  if (role == nullptr || !role->is(json::Kind::string))
    return bad(index, "a message needs a string 'role'", "role");
  json::Object members = message.members();
  bool has_content = false;
  for (auto& [key, value] : members) {
    Result<json::Value> changed = value;
    if (key == "role" && value.text() == "developer") {
      changed = json::Value::string("system");
    } else if (key == "content") {
      has_content = true;
      if (value.is(json::Kind::array)) {
        changed = join_parts(value, index);
      } else if (value.is(json::Kind::null)) {
        changed = json::Value::string("");
      } else if (!value.is(json::Kind::string)) {
        return bad(index,
                   std::string("content must be a string or an array of parts, not ") +
                       kind_name(value.kind()),
                   "content");
      }
    } else if (key == "tool_calls") {
      changed = normalise_calls(value, index);
    }
    if (!changed.ok()) return changed.error();
    value = changed.take();
  }
  const json::Value* content = message.find("content");
  const json::Value* calls = message.find("tool_calls");
  const bool calls_tools = calls != nullptr && !calls->items().empty();
  if ((content == nullptr || content->is(json::Kind::null)) && !calls_tools &&
      role->text() != "assistant") {
    return bad(index, "a message needs content", "content");
  }
  if (!has_content) members.emplace_back("content", json::Value::string(""));
  return json::Value::object(std::move(members));
}

}  // namespace

Result<json::Value> normalise_messages(const json::Value& messages) {
  if (!messages.is(json::Kind::array)) {
    return Error{ErrorCode::bad_request,
                 std::string("messages must be an array, not ") + kind_name(messages.kind()),
                 "messages"};
  }
  json::Array out;
  out.reserve(messages.items().size());
  for (const json::Value& message : messages.items()) {
    Result<json::Value> fixed = normalise_message(message, out.size());
    if (!fixed.ok()) return fixed;
    out.push_back(fixed.take());
  }
  return json::Value::array(std::move(out));
}

}  // namespace cairn::text
