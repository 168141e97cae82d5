// SPDX-License-Identifier: Apache-2.0
// The parts of a chat body that go to the template: messages and tools.
#pragma once

#include "engine/engine.hpp"
#include "engine/request/openai_fields.hpp"

namespace cairn::engine::openai {

/// Checks messages, tools, tool_choice and the template's switches and fills in the prompt; what is
/// wrong goes to `fields`.
ChatPrompt read_chat_prompt(Fields& fields);

}  // namespace cairn::engine::openai
