// SPDX-License-Identifier: Apache-2.0
#include "model/net/config.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/json.hpp"

namespace cairn::model {
namespace {

// Generous for any dense model; keeps every product of two dimensions inside int64 and every
// channel count inside int32.
constexpr std::int64_t kMaxDimension = 1 << 22;
constexpr std::int64_t kMaxHeads = 1 << 12;
constexpr std::int64_t kMaxHeadDim = 1 << 12;

std::string quote(const json::Value& v) {
  switch (v.kind()) {
    case json::Kind::null:
      return "null";
    case json::Kind::boolean:
      return v.as_bool() ? "true" : "false";
    case json::Kind::number:
      return v.text();
    case json::Kind::string:
      return "\"" + v.text() + "\"";
    case json::Kind::array:
      return "an array";
    default:
      return "an object";
  }
}

// Reads the members of one JSON object; every failure is one sentence with file, field,
// expectation.
class Fields {
 public:
  Fields(const json::Value& object, std::string file, std::string prefix)
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  [[noreturn]] void fail(std::string_view field, const std::string& found,
                         const std::string& expected) const {
    throw LoadError(file_ + ": " + prefix_ + std::string(field) + " is " + found + ", expected " +
                    expected + ".");
  }

  // nullptr when absent or null.
  const json::Value* find(std::string_view field) const {
    const json::Value* v = object_.find(field);
    return v == nullptr || v->is(json::Kind::null) ? nullptr : v;
  }

  std::int32_t dimension(std::string_view field, std::int64_t max = kMaxDimension) const {
    const std::string expected = "an integer from 1 to " + std::to_string(max);
    const json::Value* v = find(field);
    if (v == nullptr) fail(field, "missing", expected);
    if (!v->is_integer() || v->as_int() < 1 || v->as_int() > max) fail(field, quote(*v), expected);
    return static_cast<std::int32_t>(v->as_int());
  }

  std::int32_t dimension_or(std::string_view field, std::int32_t fallback) const {
    return find(field) == nullptr ? fallback : dimension(field);
  }

  double positive_or(std::string_view field, double fallback) const {
    const json::Value* v = find(field);
    if (v == nullptr) return fallback;
    const double d = v->as_double();
    if (!v->is(json::Kind::number) || !(d > 0) || !std::isfinite(d)) {
      fail(field, quote(*v), "a number above 0");
    }
    return d;
  }

  bool flag_or(std::string_view field, bool fallback) const {
    const json::Value* v = find(field);
    if (v == nullptr) return fallback;
    if (!v->is(json::Kind::boolean)) fail(field, quote(*v), "true or false");
    return v->as_bool();
  }

  // Refuses a value under which our forward pass would be wrong.
  void require_flag(std::string_view field, bool wanted) const {
    if (flag_or(field, wanted) != wanted) {
      fail(field, wanted ? "false" : "true",
           wanted ? "true (no other form is supported)" : "false (no other form is supported)");
    }
  }

  void require_text(std::string_view field, std::string_view wanted) const {
    const json::Value* v = find(field);
    if (v == nullptr || (v->is(json::Kind::string) && v->text() == wanted)) return;
    fail(field, quote(*v), "\"" + std::string(wanted) + "\" (no other form is supported)");
  }

 private:
  const json::Value& object_;
  std::string file_;
  std::string prefix_;
};

std::string text_of(const json::Value* v) {
  return v != nullptr && v->is(json::Kind::string) ? v->text() : "";
}

void refuse_other_models(const Fields& top, const Fields& text) {
  const json::Value* named = text.find("model_type");
  const Fields& where = named != nullptr ? text : top;
  if (named == nullptr) named = top.find("model_type");
  const std::string type = text_of(named);
  const json::Value* experts = text.find("num_experts");
  if (type.find("_moe") != std::string::npos) {
    where.fail("model_type", quote(*named), "a dense model (mixture-of-experts is not supported)");
  }
  if (experts != nullptr && experts->as_double() > 0) {
    text.fail("num_experts", quote(*experts), "none (mixture-of-experts is not supported)");
  }
  if (type != "qwen3_5" && type != "qwen3_5_text") {
    where.fail("model_type", named == nullptr ? "missing" : quote(*named),
               "\"qwen3_5\" or \"qwen3_5_text\"");
  }
}

void read_layers(const Fields& text, ModelConfig& c) {
  const json::Value* types = text.find("layer_types");
  if (types == nullptr) {
    const std::int32_t interval = text.dimension_or("full_attention_interval", 4);
    for (std::int32_t i = 0; i < c.num_layers; ++i) {
      c.layers.push_back((i + 1) % interval == 0 ? LayerKind::full_attention
                                                 : LayerKind::linear_attention);
    }
  } else {
    if (!types->is(json::Kind::array)) text.fail("layer_types", quote(*types), "an array");
    for (const json::Value& t : types->items()) {
      const std::string name = text_of(&t);
      if (name != "linear_attention" && name != "full_attention") {
        text.fail("layer_types[" + std::to_string(c.layers.size()) + "]", quote(t),
                  "\"linear_attention\" or \"full_attention\"");
      }
      c.layers.push_back(name == "full_attention" ? LayerKind::full_attention
                                                  : LayerKind::linear_attention);
    }
    if (c.layers.size() != static_cast<std::size_t>(c.num_layers)) {
      text.fail("layer_types", "a list of " + std::to_string(c.layers.size()),
                "one entry for each of the " + std::to_string(c.num_layers) + " layers");
    }
  }
  if (c.full_layers() == 0 || c.linear_layers() == 0) {
    text.fail("layer_types", "of one kind only",
              "at least one linear_attention and one full_attention layer");
  }
}

// RoPE parameters stand in an object of their own (current files) or flat in the text config.
void read_rope(const Fields& text, const std::string& file, const std::string& prefix,
               ModelConfig& c) {
  const json::Value* nested = text.find("rope_parameters");
  if (nested != nullptr && !nested->is(json::Kind::object)) {
    text.fail("rope_parameters", quote(*nested), "an object");
  }
  static const json::Value kNone;
  const Fields inner(nested != nullptr ? *nested : kNone, file, prefix + "rope_parameters.");
  inner.require_text("rope_type", "default");
  if (const json::Value* scaling = text.find("rope_scaling")) {
    text.fail("rope_scaling", quote(*scaling), "none (scaled RoPE is not supported)");
  }
  const Fields& theta = inner.find("rope_theta") != nullptr ? inner : text;
  c.rope_theta = theta.positive_or("rope_theta", 1e7);
  const Fields& partial = inner.find("partial_rotary_factor") != nullptr ? inner : text;
  const double factor = partial.positive_or("partial_rotary_factor", 0.25);
  const double rotary = factor * c.head_dim;
  if (factor > 1 || rotary != std::floor(rotary) || std::fmod(rotary, 2) != 0) {
    partial.fail("partial_rotary_factor", std::to_string(factor),
                 "a share of head_dim (" + std::to_string(c.head_dim) +
                     ") that is an even number of dimensions");
  }
  c.rotary_dim = static_cast<std::int32_t>(rotary);
  // Text has one position on all axes, so the sections only have to add up; they choose nothing.
  if (const json::Value* sections = inner.find("mrope_section")) {
    double sum = 0;
    for (const json::Value& s : sections->items()) sum += s.as_double();
    if (sum * 2 != rotary) {
      inner.fail("mrope_section", "a list with sum " + std::to_string(sum),
                 "a sum of " + std::to_string(c.rotary_dim / 2) + ", half the rotary dimensions");
    }
  }
}

void read_eos(const Fields& fields, ModelConfig& c) {
  const json::Value* eos = fields.find("eos_token_id");
  if (eos == nullptr) return;
  const json::Array one{*eos};
  for (const json::Value& id : eos->is(json::Kind::array) ? eos->items() : one) {
    if (!id.is_integer() || id.as_int() < 0 || id.as_int() >= c.vocab_size) {
      fields.fail("eos_token_id", quote(id),
                  "token ids below vocab_size (" + std::to_string(c.vocab_size) + ")");
    }
    const auto value = static_cast<std::int32_t>(id.as_int());
    auto& ids = c.eos_token_ids;
    if (std::find(ids.begin(), ids.end(), value) == ids.end()) ids.push_back(value);
  }
}

json::Value parse_object(std::string_view text, const std::string& file) {
  Result<json::Value> parsed = json::parse(text);
  if (!parsed.ok()) {
    throw LoadError(file + ": not valid JSON: " + parsed.error().message + ".");
  }
  if (!parsed->is(json::Kind::object)) throw LoadError(file + ": expected a JSON object.");
  return parsed.take();
}

void require_divisible(const Fields& text, std::string_view field, std::int32_t value,
                       std::string_view divisor_name, std::int32_t divisor) {
  if (value % divisor == 0) return;
  text.fail(field, std::to_string(value),
            "a multiple of " + std::string(divisor_name) + " (" + std::to_string(divisor) + ")");
}

}  // namespace

ModelConfig parse_model_config(std::string_view json, const std::string& file) {
  const json::Value document = parse_object(json, file);
  const Fields top(document, file, "");
  const json::Value* nested = top.find("text_config");
  if (nested != nullptr && !nested->is(json::Kind::object)) {
    top.fail("text_config", quote(*nested), "an object");
  }
  const std::string prefix = nested != nullptr ? "text_config." : "";
  const Fields text(nested != nullptr ? *nested : document, file, prefix);
  refuse_other_models(top, text);

  ModelConfig c;
  c.vocab_size = text.dimension("vocab_size");
  c.sampled_vocab = c.vocab_size;
  c.hidden_size = text.dimension("hidden_size");
  c.intermediate_size = text.dimension("intermediate_size");
  c.num_layers = text.dimension("num_hidden_layers", 4096);
  c.num_heads = text.dimension("num_attention_heads", kMaxHeads);
  c.num_kv_heads = text.dimension("num_key_value_heads", kMaxHeads);
  c.head_dim = text.dimension("head_dim", kMaxHeadDim);
  if (c.head_dim % 2 != 0) {  // dims lie in pairs in the KV cache
    text.fail("head_dim", std::to_string(c.head_dim), "an even number");
  }
  c.linear_key_heads = text.dimension("linear_num_key_heads", kMaxHeads);
  c.linear_value_heads = text.dimension("linear_num_value_heads", kMaxHeads);
  c.linear_key_dim = text.dimension("linear_key_head_dim", kMaxHeadDim);
  c.linear_value_dim = text.dimension("linear_value_head_dim", kMaxHeadDim);
  c.conv_kernel = text.dimension("linear_conv_kernel_dim");
  c.rms_norm_eps = static_cast<float>(text.positive_or("rms_norm_eps", 1e-6));
  c.max_position_embeddings = text.dimension("max_position_embeddings", 1 << 28);
  // The outer model owns the head, so its flag wins where both are given.
  c.tie_word_embeddings =
      top.flag_or("tie_word_embeddings", text.flag_or("tie_word_embeddings", false));

  text.require_text("hidden_act", "silu");
  text.require_flag("attention_bias", false);
  text.require_flag("attn_output_gate", true);
  require_divisible(text, "num_attention_heads", c.num_heads, "num_key_value_heads",
                    c.num_kv_heads);
  require_divisible(text, "linear_num_value_heads", c.linear_value_heads, "linear_num_key_heads",
                    c.linear_key_heads);
  if (c.conv_kernel != 4) {
    text.fail("linear_conv_kernel_dim", std::to_string(c.conv_kernel),
              "4 (no other number of taps is supported)");
  }
  read_layers(text, c);
  read_rope(text, file, prefix, c);
  read_eos(text, c);
  if (nested != nullptr) read_eos(top, c);
  return c;
}

void add_generation_config(std::string_view json, const std::string& file, ModelConfig& config) {
  const json::Value document = parse_object(json, file);
  read_eos(Fields(document, file, ""), config);
}

}  // namespace cairn::model
