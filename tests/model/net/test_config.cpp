// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "model/net/config.hpp"
#include "model/net/memory_layout.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::model;

namespace {

const std::string kFlat = R"({
  "model_type": "qwen3_5_text", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
  "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
  "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "max_position_embeddings": 512,
  "eos_token_id": [3, 5, 3]
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& json) {
  try {
    parse_model_config(json, "dir/config.json");
  } catch (const LoadError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the published 0.8B config is read in full") {
  const ModelConfig c = parse_model_config(
      testing::read_file(std::string(CAIRN_FIXTURES) + "/config-0.8b.json"), "config.json");
  CHECK(write_model_config(c) == write_model_config(shape_by_name("qwen3.5-0.8b")));
  CHECK(c.layers.size() == 24);
  CHECK(c.full_layers() == 6);
  CHECK(c.layers[3] == LayerKind::full_attention);
  CHECK(c.rotary_dim == 64);
  CHECK(c.tie_word_embeddings);
  CHECK(c.eos_token_ids == std::vector<std::int32_t>{248044});
  CHECK(c.conv_channels() == 6144);
  CHECK(c.sampled_vocab == 248320);
}

TEST_CASE("parameter counts match the published models") {
  CHECK(shape_by_name("qwen3.5-0.8b").parameters() == 752393024);
  CHECK(shape_by_name("Qwen3.5-2B").parameters() == 1881825088);
  CHECK(shape_by_name("qwen3.5-4b").parameters() == 4205751296);
  CHECK(shape_by_name("qwen3.5-9b").parameters() == 8953803264);
  CHECK(shape_by_name("qwen3.5-27b").parameters() == 26895998464);
}

TEST_CASE("the 0.8B shape keeps 20,201,472 bytes a state and 12,288 bytes of bf16 KV a token") {
  const ModelConfig c = shape_by_name("qwen3.5-0.8b");
  CHECK(memory_layout(c, KvType::bf16).state_bytes == 20'201'472);
  CHECK(cpu_memory_layout(c, KvType::bf16).state_bytes == 20'201'472 + 18 * 16 * 4 * 4);
  CHECK(memory_layout(c, KvType::bf16).kv_bytes_per_token() == 12'288);
  CHECK(memory_layout(c, KvType::f32).kv_bytes_per_token() == 24'576);
}

TEST_CASE("an unknown shape is refused with the list") {
  try {
    shape_by_name("qwen3.5-1b");
    FAIL("accepted");
  } catch (const LoadError& e) {
    CHECK(std::string(e.what()).find("qwen3.5-0.8b, qwen3.5-2b") != std::string::npos);
  }
}

TEST_CASE("a flat config with defaults is read") {
  const ModelConfig c = parse_model_config(kFlat, "config.json");
  CHECK(c.layers[3] == LayerKind::full_attention);
  CHECK(c.layers[4] == LayerKind::linear_attention);
  CHECK(c.rotary_dim == 8);
  CHECK(c.rope_theta == 1e7);
  CHECK(c.rms_norm_eps == 1e-6F);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(c.eos_token_ids == std::vector<std::int32_t>{3, 5});
}

TEST_CASE("what is written is read back") {
  for (const char* name : {"tiny", "demo", "qwen3.5-27b"}) {
    const ModelConfig c = shape_by_name(name);
    const ModelConfig back = parse_model_config(write_model_config(c), "config.json");
    CHECK(write_model_config(back) == write_model_config(c));
    CHECK(back.parameters() == c.parameters());
    CHECK(back.rotary_dim == c.rotary_dim);
    CHECK(back.layers == c.layers);
  }
}

TEST_CASE("the tie flag stands at the top or in the text config, the top one wins") {
  const std::string inner = replaced(kFlat, "\"eos", "\"tie_word_embeddings\": true, \"eos");
  CHECK(parse_model_config(inner, "f").tie_word_embeddings);
  CHECK(parse_model_config("{\"text_config\": " + inner + "}", "f").tie_word_embeddings);
  CHECK_FALSE(
      parse_model_config("{\"tie_word_embeddings\": false, \"text_config\": " + inner + "}", "f")
          .tie_word_embeddings);
}

TEST_CASE("the eos ids of generation_config.json are added once") {
  ModelConfig c = parse_model_config(kFlat, "config.json");
  add_generation_config(R"({"eos_token_id": [5, 7], "temperature": 1.0})", "g", c);
  CHECK(c.eos_token_ids == std::vector<std::int32_t>{3, 5, 7});
  add_generation_config("{}", "g", c);
  CHECK_THROWS_AS(add_generation_config(R"({"eos_token_id": 128})", "g", c), LoadError);
  CHECK_THROWS_AS(add_generation_config("[", "g", c), LoadError);
}

TEST_CASE("a config that cannot be used is refused in one sentence") {
  struct Bad {
    std::string from, to, says;
  };
  const std::vector<Bad> all{
      {"\"vocab_size\": 128,", "", "vocab_size is missing, expected an integer from 1"},
      {"\"hidden_size\": 64", "\"hidden_size\": \"64\"", "hidden_size is \"64\", expected"},
      {"\"hidden_size\": 64", "\"hidden_size\": 6.5", "hidden_size is 6.5, expected"},
      {"\"hidden_size\": 64", "\"hidden_size\": -4", "hidden_size is -4, expected"},
      {"\"hidden_size\": 64", "\"hidden_size\": 99999999999999999999", "hidden_size is 9999"},
      {"qwen3_5_text", "qwen3_5_moe_text", "model_type is \"qwen3_5_moe_text\", expected a dense"},
      {"qwen3_5_text", "llama", "model_type is \"llama\", expected \"qwen3_5\""},
      {"\"eos", "\"num_experts\": 8, \"eos", "num_experts is 8, expected none"},
      {"\"num_attention_heads\": 4", "\"num_attention_heads\": 5",
       "num_attention_heads is 5, expected a multiple of num_key_value_heads (2)"},
      {"\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 3",
       "linear_num_value_heads is 3, expected a multiple of linear_num_key_heads (2)"},
      {"\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 2", "expected 4"},
      {"\"head_dim\": 32", "\"head_dim\": 20", "partial_rotary_factor is 0.25"},
      {"\"head_dim\": 32", "\"head_dim\": 33", "head_dim is 33, expected an even number"},
      {"\"eos", "\"hidden_act\": \"gelu\", \"eos", "hidden_act is \"gelu\", expected \"silu\""},
      {"\"eos", "\"attention_bias\": true, \"eos", "attention_bias is true, expected false"},
      {"\"eos", "\"attn_output_gate\": false, \"eos", "attn_output_gate is false, expected true"},
      {"\"eos", "\"layer_types\": [\"linear_attention\"], \"eos", "layer_types is a list of 1"},
      {"\"eos", "\"layer_types\": [\"sliding_attention\"], \"eos",
       "layer_types[0] is \"sliding_attention\", expected"},
      {"\"eos", "\"layer_types\": 3, \"eos", "layer_types is 3, expected an array"},
      {"\"eos", "\"full_attention_interval\": 9, \"eos", "at least one linear_attention and one"},
      {"\"eos", "\"full_attention_interval\": 0, \"eos", "full_attention_interval is 0"},
      {"\"eos", "\"rope_scaling\": {\"factor\": 4}, \"eos", "rope_scaling is an object"},
      {"\"eos", "\"rope_parameters\": {\"rope_type\": \"yarn\"}, \"eos",
       "rope_parameters.rope_type is \"yarn\""},
      {"\"eos", "\"rope_parameters\": {\"rope_theta\": -1}, \"eos", "rope_theta is -1"},
      {"\"eos", "\"rope_parameters\": {\"partial_rotary_factor\": 2}, \"eos",
       "rope_parameters.partial_rotary_factor is 2"},
      {"\"eos", "\"rope_parameters\": {\"mrope_section\": [11, 11, 10]}, \"eos",
       "expected a sum of 4"},
      {"\"eos", "\"rope_parameters\": [], \"eos", "rope_parameters is an array"},
      {"[3, 5, 3]", "[3, 128]", "eos_token_id is 128, expected token ids below vocab_size (128)"},
      {"[3, 5, 3]", "\"x\"", "eos_token_id is \"x\""},
      {"{", "[", "not valid JSON"},
  };
  for (const Bad& bad : all) {
    const std::string said = refusal(replaced(kFlat, bad.from, bad.to));
    INFO(said);
    CHECK(said.find("dir/config.json: ") == 0);
    CHECK(said.find(bad.says) != std::string::npos);
    CHECK(said.back() == '.');
  }
  CHECK(refusal("[]") == "dir/config.json: expected a JSON object.");
  CHECK(refusal("{\"text_config\": 3}").find("text_config is 3") != std::string::npos);
  CHECK(refusal("{\"text_config\": {}}").find("model_type is missing") != std::string::npos);
  CHECK(refusal("{\"model_type\": \"qwen3_5\", \"text_config\": {}}")
            .find("text_config.vocab_size is missing") != std::string::npos);
}
