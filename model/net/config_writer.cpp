// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>

#include "model/net/config.hpp"

namespace cairn::model {
namespace {

template <class T>
std::string shortest(T value) {  // reads back as the same number
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return "[" + out + "]";
}

// An object's lines at one depth.
class ObjectText {
 public:
  explicit ObjectText(std::size_t depth) : depth_(depth) {}
  ObjectText& raw(std::string_view key, const std::string& value) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += std::string(2 * depth_, ' ') + "\"" + std::string(key) + "\": " + value;
    return *this;
  }
  ObjectText& number(std::string_view key, std::int64_t value) {
    return raw(key, std::to_string(value));
  }
  ObjectText& text(std::string_view key, std::string_view value) {
    return raw(key, "\"" + std::string(value) + "\"");
  }
  ObjectText& flag(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  std::string done() const { return "{" + text_ + "\n" + std::string(2 * depth_ - 2, ' ') + "}"; }

 private:
  std::size_t depth_;
  std::string text_;
};

// Three sections in the proportions of the published models, adding up to half the rotary dims.
std::string mrope_section(std::int32_t rotary_dim) {
  const std::int32_t pairs = rotary_dim / 2;
  const std::int32_t width = pairs / 3;
  const std::int32_t height = (pairs - width) / 2;
  return join(
      {std::to_string(pairs - width - height), std::to_string(height), std::to_string(width)});
}

}  // namespace

std::string write_model_config(const ModelConfig& c) {
  std::vector<std::string> kinds;
  for (const LayerKind kind : c.layers) {
    kinds.emplace_back(kind == LayerKind::full_attention ? "\"full_attention\""
                                                         : "\"linear_attention\"");
  }
  std::vector<std::string> eos;
  for (const std::int32_t id : c.eos_token_ids) eos.push_back(std::to_string(id));
  const double factor = static_cast<double>(c.rotary_dim) / c.head_dim;

  ObjectText rope(3);
  rope.text("rope_type", "default")
      .raw("rope_theta", shortest(c.rope_theta))
      .raw("partial_rotary_factor", shortest(factor))
      .raw("mrope_section", mrope_section(c.rotary_dim))
      .flag("mrope_interleaved", true);
  ObjectText text(2);
  text.text("model_type", "qwen3_5_text")
      .number("vocab_size", c.vocab_size)
      .number("hidden_size", c.hidden_size)
      .number("intermediate_size", c.intermediate_size)
      .number("num_hidden_layers", c.num_layers)
      .raw("layer_types", join(kinds))
      .number("num_attention_heads", c.num_heads)
      .number("num_key_value_heads", c.num_kv_heads)
      .number("head_dim", c.head_dim)
      .number("linear_num_key_heads", c.linear_key_heads)
      .number("linear_num_value_heads", c.linear_value_heads)
      .number("linear_key_head_dim", c.linear_key_dim)
      .number("linear_value_head_dim", c.linear_value_dim)
      .number("linear_conv_kernel_dim", c.conv_kernel)
      .raw("rms_norm_eps", shortest(c.rms_norm_eps))
      .text("hidden_act", "silu")
      .flag("attention_bias", false)
      .flag("attn_output_gate", true)
      .flag("tie_word_embeddings", c.tie_word_embeddings)
      .number("max_position_embeddings", c.max_position_embeddings)
      .raw("eos_token_id", eos.size() == 1 ? eos.front() : join(eos))
      .text("dtype", "bfloat16")
      .text("mamba_ssm_dtype", "float32")
      .raw("rope_parameters", rope.done());
  ObjectText top(1);
  top.raw("architectures", "[\"Qwen3_5ForConditionalGeneration\"]")
      .text("model_type", "qwen3_5")
      .flag("tie_word_embeddings", c.tie_word_embeddings)
      .raw("text_config", text.done());
  return top.done() + "\n";
}

}  // namespace cairn::model
