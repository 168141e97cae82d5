// SPDX-License-Identifier: Apache-2.0
#include "engine/model_bundle.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "model/demo/embedded.hpp"

namespace cairn::engine {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_optional(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

template <class T>
void take_number(const json::Value& object, const char* key, const std::string& file,
                 std::optional<T>& out) {
  const json::Value* v = object.find(key);
  if (!v || v->is(json::Kind::null)) return;
  if (!v->is(json::Kind::number)) {
    throw LoadError(file + ": field '" + key + "' is no number");
  }
  out = static_cast<T>(v->as_double());
}

// Sampling defaults; eos ids of the same file are read with the weights' config.
Sampling read_generation_defaults(std::string_view json_text, const std::string& file) {
  const auto parsed = json::parse(json_text);
  if (!parsed.ok()) throw LoadError(file + ": " + parsed.error().message);
  Sampling s;
  take_number(*parsed, "temperature", file, s.temperature);
  take_number(*parsed, "top_k", file, s.top_k);
  take_number(*parsed, "top_p", file, s.top_p);
  take_number(*parsed, "min_p", file, s.min_p);
  take_number(*parsed, "repetition_penalty", file, s.repetition_penalty);
  const json::Value* do_sample = parsed->find("do_sample");
  if (do_sample && do_sample->is(json::Kind::boolean) && !do_sample->as_bool()) s.temperature = 0.F;
  return s;
}

void finish(ModelBundle& bundle) {
  const model::ModelConfig& config = model::config_of(*bundle.weights);
  std::set<std::int32_t> stops(config.eos_token_ids.begin(), config.eos_token_ids.end());
  bundle.sampled_vocab = config.vocab_size;
  if (bundle.tokenizer) {
    stops.insert(bundle.tokenizer->eos_ids().begin(), bundle.tokenizer->eos_ids().end());
    const std::int32_t known = bundle.tokenizer->vocab_size();
    if (known > config.vocab_size) {
      // Ids of later model families may be listed without rows of their own: they cannot be fed.
      log(LogLevel::warning, "the tokenizer knows " + std::to_string(known) +
                                 " ids, the model has " + std::to_string(config.vocab_size) +
                                 " rows");
    }
    bundle.sampled_vocab = std::min(known, config.vocab_size);
  }
  bundle.stop_ids.assign(stops.begin(), stops.end());
}

std::string_view demo_text(std::string_view name) { return demo::file(name); }

std::shared_ptr<const ModelBundle> load_demo(const EngineOptions& options,
                                             const model::LoadOptions& load) {
  auto bundle = std::make_shared<ModelBundle>();
  bundle->name = "demo";
  std::vector<model::MemoryFile> files;
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    const std::string_view content = demo_text(name);
    files.push_back({name, {reinterpret_cast<const std::byte*>(content.data()), content.size()}});
  }
  bundle->weights = model::load_weights(files, load);
  text::TokenizerFiles tokenizer;
  tokenizer.tokenizer_json = demo_text("tokenizer.json");
  tokenizer.tokenizer_config_json = demo_text("tokenizer_config.json");
  bundle->tokenizer = text::Tokenizer::from_files(tokenizer);
  bundle->chat_template.emplace(demo_text("chat_template.jinja"), text::ChatTemplateOptions{},
                                "chat_template.jinja (demo)");
  bundle->defaults = read_generation_defaults(demo_text("generation_config.json"),
                                              "generation_config.json (demo)");
  if (!options.served_name.empty()) bundle->name = options.served_name;
  finish(*bundle);
  return bundle;
}

bool has_tokenizer(const fs::path& dir) {
  return fs::exists(dir / "tokenizer.json") || fs::exists(dir / "vocab.json");
}

bool has_template(const fs::path& dir) {
  if (fs::exists(dir / "chat_template.jinja")) return true;
  const auto config = read_optional(dir / "tokenizer_config.json");
  if (!config) return false;
  const auto parsed = json::parse(*config);
  return parsed.ok() && parsed->find("chat_template") != nullptr;
}

std::shared_ptr<const ModelBundle> load_directory(const EngineOptions& options,
                                                  model::LoadOptions load) {
  const fs::path dir(options.model);
  std::error_code ignored;
  if (!fs::is_directory(dir, ignored)) {
    throw LoadError("'" + options.model +
                    "' is no directory: expected a Hugging Face model directory or 'demo'");
  }
  auto bundle = std::make_shared<ModelBundle>();
  bundle->name = options.served_name;
  if (bundle->name.empty()) bundle->name = fs::weakly_canonical(dir).filename().string();
  load.cache_file = model::weights_cache_file(options.model, load.format, options.weights_cache);
  load.cache_needed = options.weights_cache != "auto";  // a place that was named is to be of use
  bundle->weights = model::load_weights(options.model, load);
  if (has_tokenizer(dir)) {
    bundle->tokenizer = text::load_tokenizer(dir);
  } else {
    log(LogLevel::warning,
        options.model + " has no tokenizer: only prompts of token ids are served");
  }
  if (has_template(dir)) bundle->chat_template = text::ChatTemplate::load(dir);
  if (const auto defaults = read_optional(dir / "generation_config.json")) {
    bundle->defaults =
        read_generation_defaults(*defaults, (dir / "generation_config.json").string());
  }
  finish(*bundle);
  return bundle;
}

}  // namespace

void show_progress(const LoadProgress& progress, model::LoadOptions& load) {
  if (!progress) return;
  const auto stage = [&](const char* name) -> model::LoadProgress {
    return
        [progress, name](std::uint64_t done, std::uint64_t total) { progress(name, done, total); };
  };
  load.progress = stage("weights");
  load.store_progress = stage("weights into their cache");
}

std::shared_ptr<const ModelBundle> load_model_bundle(const EngineOptions& options,
                                                     kernels::WeightFormat format) {
  model::LoadOptions load;
  load.format = format;
  show_progress(options.progress, load);
  return options.model == "demo" ? load_demo(options, load) : load_directory(options, load);
}

}  // namespace cairn::engine
