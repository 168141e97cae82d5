// SPDX-License-Identifier: Apache-2.0
// cairn model: look at a model directory, make one, quantise its weights, tokenize with one.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/json_text.hpp"
#include "cli/commands.hpp"
#include "cli/engine_flags.hpp"
#include "cli/files.hpp"
#include "engine/model_bundle.hpp"
#include "model/demo/embedded.hpp"
#include "model/net/config.hpp"
#include "model/net/safetensors.hpp"
#include "model/net/weights.hpp"
#include "model/text/tokenizer.hpp"

namespace cairn::cli {
namespace {

struct ModelFlags {
  std::string directory, shape, text, weights = "int8", out;
  std::uint64_t seed = 1;
  bool special = false, force = false;
};

struct Group {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

// What part of the checkpoint a tensor belongs to.
std::string group_of(std::string_view name) {
  if (name.starts_with("model.visual.") || name.starts_with("visual.")) return "vision (skipped)";
  if (name.starts_with("mtp.") || name.starts_with("model.mtp.")) return "draft head (skipped)";
  return "text model";
}

void print_config(const model::ModelConfig& c) {
  std::printf("layers       %d (%d recurrent, %d attention), width %d, feed-forward %d\n",
              c.num_layers, c.linear_layers(), c.full_layers(), c.hidden_size, c.intermediate_size);
  std::printf("attention    %d query heads, %d KV heads of %d; rotary %d of them\n", c.num_heads,
              c.num_kv_heads, c.head_dim, c.rotary_dim);
  std::printf("recurrence   %d key heads of %d, %d value heads of %d, convolution over %d\n",
              c.linear_key_heads, c.linear_key_dim, c.linear_value_heads, c.linear_value_dim,
              c.conv_kernel);
  std::printf("vocabulary   %d rows%s\n", c.vocab_size,
              c.tie_word_embeddings ? ", embedding and output tied" : "");
  std::printf("context      %d tokens\n", c.max_position_embeddings);
  std::printf("parameters   %.4g M in the text model\n",
              static_cast<double>(c.parameters()) * 1e-6);
}

int info(const ModelFlags& flags) {
  const std::string config_path = flags.directory + "/config.json";
  const auto config = model::parse_model_config(read_input(config_path), config_path);
  const auto checkpoint = model::Checkpoint::open_directory(flags.directory);
  print_config(config);
  std::map<std::string, Group> groups;
  for (const auto name : checkpoint.names()) {
    Group& group = groups[group_of(name)];
    ++group.tensors;
    group.bytes += checkpoint.find(name)->data.size();
  }
  for (const auto& [name, group] : groups)
    std::printf("%-12s %zu tensors, %s\n", name.c_str(), group.tensors,
                format_bytes(group.bytes).c_str());
  return 0;
}

int make(const ModelFlags& flags) {
  const auto config = model::shape_by_name(flags.shape);
  if (std::filesystem::exists(flags.directory + "/config.json") && !flags.force)
    return complain(flags.directory + " holds a model already; --force replaces it");
  std::error_code error;
  std::filesystem::create_directories(flags.directory, error);
  if (error) return complain(flags.directory + ": cannot be made: " + error.message());
  model::write_model_directory(config, flags.seed, flags.directory);
  std::printf("%s: %s, seed %llu, without a tokenizer\n", flags.directory.c_str(),
              flags.shape.c_str(), static_cast<unsigned long long>(flags.seed));
  return 0;
}

int quantize(const ModelFlags& flags) {
  model::LoadOptions options;
  options.format = *model::format_named(flags.weights);
  options.cache_file = flags.out.empty()
                           ? model::weights_cache_file(flags.directory, options.format, "auto")
                           : flags.out;
  engine::show_progress(progress_line(), options);
  const std::uint64_t bytes = model::write_weights_cache(flags.directory, options);
  std::printf("%s: %s, %s\n", options.cache_file.c_str(),
              model::format_name(options.format).c_str(), format_bytes(bytes).c_str());
  return 0;
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const std::string& model) {
  if (model != "demo") return text::load_tokenizer(model);
  text::TokenizerFiles files;
  files.tokenizer_json = demo::file("tokenizer.json");
  files.tokenizer_config_json = demo::file("tokenizer_config.json");
  return text::Tokenizer::from_files(files);
}

int tokenize(const ModelFlags& flags) {
  const auto tokenizer = tokenizer_of(flags.directory);
  const std::string text = flags.text.empty() ? read_input("-") : flags.text;
  JsonWriter json;
  json.begin_array();
  for (const std::int32_t id : tokenizer->encode(text, flags.special)) json.integer(id);
  json.end_array();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

}  // namespace

void add_model(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ModelFlags>();
  CLI::App* command =
      app.add_subcommand("model", "Look at, make, quantise and tokenize with model directories");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  cairn model info ~/models/Qwen3.5-0.8B\n"
      "  cairn model make --shape tiny --seed 1 /tmp/tiny\n"
      "  cairn model quantize --model ~/models/Qwen3.5-0.8B --weights int8\n"
      "  cairn model tokenize --model demo 'some text'");

  CLI::App* info_command = command->add_subcommand("info", "Shape, tensors and bytes");
  info_command->add_option("DIR", flags->directory, "Model directory")->required();
  info_command->callback([flags, &action] { action = [flags] { return info(*flags); }; });

  CLI::App* make_command =
      command->add_subcommand("make", "Write a model with random weights in the published format");
  make_command
      ->add_option("--shape", flags->shape, "qwen3.5-0.8b, -2b, -4b, -9b, -27b, tiny or demo")
      ->required();
  make_command->add_option("--seed", flags->seed, "Of the weights")->capture_default_str();
  make_command->add_flag("--force", flags->force, "Replace a model that is there");
  make_command->add_option("DIR", flags->directory, "Where to write")->required();
  make_command->callback([flags, &action] { action = [flags] { return make(*flags); }; });

  CLI::App* quantize_command = command->add_subcommand(
      "quantize",
      "Write the file that --weights int8 or int4 starts from, ahead of the first start");
  quantize_command->add_option("-m,--model", flags->directory, "Model directory")->required();
  quantize_command->add_option("--weights", flags->weights, "int8 or int4")
      ->check(CLI::IsMember({"int8", "int4"}))
      ->capture_default_str();
  quantize_command->add_option("--out", flags->out,
                               "File to write (default: where --weights-cache auto looks for it)");
  quantize_command->callback([flags, &action] { action = [flags] { return quantize(*flags); }; });

  CLI::App* tokenize_command = command->add_subcommand("tokenize", "Text to token ids, as JSON");
  tokenize_command->add_option("-m,--model", flags->directory, "Model directory, or 'demo'")
      ->required();
  tokenize_command->add_flag("--special", flags->special, "Let text spell special tokens");
  tokenize_command->add_option("TEXT", flags->text, "The text (default: standard input)");
  tokenize_command->callback([flags, &action] { action = [flags] { return tokenize(*flags); }; });
}

}  // namespace cairn::cli
