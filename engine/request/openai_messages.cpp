// SPDX-License-Identifier: Apache-2.0
#include "engine/request/openai_messages.hpp"

#include <algorithm>
#include <array>

#include "base/json_text.hpp"
#include "base/quote.hpp"

namespace cairn::engine::openai {
namespace {

using json::Kind;
using json::Value;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

Status check_part(const Value& part, const std::string& where) {
  const Value* type = part.find("type");
  if (!type || !type->is(Kind::string))
    return bad_field(where, where + " must be an object with a type.");
  if (type->text() != "text")
    return unsupported_field(where + ".type", "Content of type " + quoted(type->text()) + " in " +
                                                  where +
                                                  " is not supported: this model reads text only.");
  const Value* text = part.find("text");
  if (!text || !text->is(Kind::string))
    return bad_field(where + ".text", where + ".text must be a string.");
  return ok_status();
}

Status check_content(const Value& message, const std::string& where) {
  const Value* content = message.find("content");
  if (!content || content->is(Kind::null)) {
    const Value* role = message.find("role");
    if (role->text() == "assistant") return ok_status();
    return bad_field(where + ".content", where + ".content is missing.");
  }
  if (content->is(Kind::string)) return ok_status();
  if (!content->is(Kind::array))
    return wrong_kind(where + ".content", *content, "a string or an array");
  for (std::size_t i = 0; i < content->items().size(); ++i) {
    const auto part = where + ".content[" + std::to_string(i) + "]";
    if (auto status = check_part(content->items()[i], part); !status) return status;
  }
  return ok_status();
}

Status check_call(const Value& call, const std::string& where) {
  if (!call.is(Kind::object)) return wrong_kind(where, call, "an object");
  const Value* function = call.find("function");
  if (!function || !function->is(Kind::object))
    return bad_field(where + ".function", where + ".function must be an object.");
  for (const char* name : {"name", "arguments"}) {
    const std::string field = where + ".function." + name;
    const Value* value = function->find(name);
    if (!value || !value->is(Kind::string)) return bad_field(field, field + " must be a string.");
  }
  return ok_status();
}

Status check_calls(const Value& message, const std::string& where) {
  const Value* calls = message.find("tool_calls");
  if (!calls || calls->is(Kind::null)) return ok_status();
  const std::string field = where + ".tool_calls";
  if (!calls->is(Kind::array)) return wrong_kind(field, *calls, "an array");
  for (std::size_t i = 0; i < calls->items().size(); ++i) {
    const auto call = field + "[" + std::to_string(i) + "]";
    if (auto status = check_call(calls->items()[i], call); !status) return status;
  }
  return ok_status();
}

Status check_message(const Value& message, const std::string& where) {
  if (!message.is(Kind::object)) return wrong_kind(where, message, "an object");
  const Value* role = message.find("role");
  if (!role || !role->is(Kind::string))
    return bad_field(where + ".role", where + ".role must be a string.");
  if (std::find(kRoles.begin(), kRoles.end(), role->text()) == kRoles.end())
    return bad_field(where + ".role",
                     where +
                         ".role must be one of system, developer, user, assistant and tool, not " +
                         quoted(role->text()) + ".");
  if (auto status = check_calls(message, where); !status) return status;
  return check_content(message, where);
}

void read_messages(Fields& fields, ChatPrompt& prompt) {
  const Value* messages = fields.array("messages");
  if (!messages || messages->items().empty()) {
    fields.fail(bad_field("messages", "messages must be an array of at least one message."));
    return;
  }
  for (std::size_t i = 0; i < messages->items().size(); ++i) {
    const auto where = "messages[" + std::to_string(i) + "]";
    if (auto status = check_message(messages->items()[i], where); !status) {
      fields.fail(status.error());
      return;
    }
  }
  prompt.messages_json = dump_json(*messages);
}

Status check_tool(const Value& tool, const std::string& where) {
  const Value* type = tool.find("type");
  const Value* function = tool.find("function");
  const Value* name = function ? function->find("name") : nullptr;
  if (!type || !type->is(Kind::string) || type->text() != "function")
    return bad_field(where + ".type", where + ".type must be \"function\".");
  if (!name || !name->is(Kind::string) || name->text().empty())
    return bad_field(where + ".function.name", where + ".function.name must be a string.");
  const Value* parameters = function->find("parameters");
  if (parameters && !parameters->is(Kind::null) && !parameters->is(Kind::object))
    return bad_field(where + ".function.parameters",
                     where + ".function.parameters must be an object (a JSON schema).");
  // The template would show it to the model.
  const Value* mark = tool.find("cache_control");
  if (mark && !mark->is(Kind::null))
    return unsupported_field(where + ".cache_control",
                             "Tools cannot be marked: mark the first message instead.");
  return ok_status();
}

// Whether the model may see the tools.
bool read_tool_choice(Fields& fields) {
  const Value* choice = fields.get("tool_choice");
  if (!choice) return true;
  if (choice->is(Kind::string)) {
    if (choice->text() == "none") return false;
    if (choice->text() == "auto") return true;
    if (choice->text() != "required") {
      fields.fail(
          bad_field("tool_choice", "tool_choice must be none, auto, required or an object."));
      return true;
    }
  } else if (!choice->is(Kind::object)) {
    fields.fail(bad_field("tool_choice", "tool_choice must be a string or an object."));
    return true;
  }
  fields.fail(unsupported_field(
      "tool_choice", "Forcing a tool call is not supported: use tool_choice auto or none."));
  return true;
}

void read_tools(Fields& fields, ChatPrompt& prompt) {
  const bool offered = read_tool_choice(fields);
  const Value* tools = fields.array("tools");
  if (!tools || tools->items().empty()) return;
  for (std::size_t i = 0; i < tools->items().size(); ++i) {
    if (auto status = check_tool(tools->items()[i], "tools[" + std::to_string(i) + "]"); !status) {
      fields.fail(status.error());
      return;
    }
  }
  if (offered) prompt.tools_json = dump_json(*tools);
}

void read_template_switches(Fields& fields, ChatPrompt& prompt) {
  prompt.enable_thinking = fields.boolean("enable_thinking");
  prompt.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  const Value* kwargs = fields.object("chat_template_kwargs");
  if (!kwargs) return;
  json::Object rest;
  for (const auto& [name, value] : kwargs->members())
    if (name != "enable_thinking") rest.emplace_back(name, value);
  Fields inner(*kwargs, "chat_template_kwargs.");
  if (const auto thinking = inner.boolean("enable_thinking")) prompt.enable_thinking = thinking;
  if (inner.error()) fields.fail(*inner.error());
  if (!rest.empty()) prompt.template_kwargs_json = dump_json(Value::object(std::move(rest)));
}

}  // namespace

ChatPrompt read_chat_prompt(Fields& fields) {
  ChatPrompt prompt;
  read_messages(fields, prompt);
  read_tools(fields, prompt);
  read_template_switches(fields, prompt);
  return prompt;
}

}  // namespace cairn::engine::openai
