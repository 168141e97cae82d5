// SPDX-License-Identifier: Apache-2.0
// The demo model's files, linked into the binary.
#pragma once

#include <string_view>

namespace cairn::demo {

/// The content of one of config.json, generation_config.json, model.safetensors, tokenizer.json,
/// tokenizer_config.json, chat_template.jinja; it lives as long as the program. Throws
/// InvariantError for other names.
std::string_view file(std::string_view name);

}  // namespace cairn::demo
