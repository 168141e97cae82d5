// SPDX-License-Identifier: Apache-2.0
#include "model/demo/embedded.hpp"

#include <array>
#include <string>

#include "base/check.hpp"

// Symbols of files.S: first byte and one past the last of each file.
extern "C" {
extern const char cairn_demo_config_begin[], cairn_demo_config_end[];
extern const char cairn_demo_generation_begin[], cairn_demo_generation_end[];
extern const char cairn_demo_weights_begin[], cairn_demo_weights_end[];
extern const char cairn_demo_tokenizer_begin[], cairn_demo_tokenizer_end[];
extern const char cairn_demo_tokenizer_config_begin[], cairn_demo_tokenizer_config_end[];
extern const char cairn_demo_template_begin[], cairn_demo_template_end[];
}

namespace cairn::demo {
namespace {

struct Entry {
  std::string_view name;
  const char* begin;
  const char* end;
};

}  // namespace

std::string_view file(std::string_view name) {
  static const std::array<Entry, 6> entries{{
      {"config.json", cairn_demo_config_begin, cairn_demo_config_end},
      {"generation_config.json", cairn_demo_generation_begin, cairn_demo_generation_end},
      {"model.safetensors", cairn_demo_weights_begin, cairn_demo_weights_end},
      {"tokenizer.json", cairn_demo_tokenizer_begin, cairn_demo_tokenizer_end},
      {"tokenizer_config.json", cairn_demo_tokenizer_config_begin, cairn_demo_tokenizer_config_end},
      {"chat_template.jinja", cairn_demo_template_begin, cairn_demo_template_end},
  }};
  for (const Entry& e : entries) {
    if (e.name == name) return {e.begin, static_cast<std::size_t>(e.end - e.begin)};
  }
  throw InvariantError("the demo model has no file " + std::string(name));
}

}  // namespace cairn::demo
