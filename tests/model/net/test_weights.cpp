// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/check.hpp"
#include "base/log.hpp"
#include "model/net/backend.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/model/net/tensor_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness_sequence.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::testing::as_bytes;
using cairn::testing::logits_of;
using cairn::testing::TempDir;
using cairn::testing::TensorFile;

namespace {

const std::string kTiny = std::string(CAIRN_FIXTURES) + "/tiny";
const std::string kEmbed = "model.language_model.embed_tokens.weight";
const std::string kNorm = "model.language_model.norm.weight";
const std::string kDown = "model.language_model.layers.1.mlp.down_proj.weight";

struct Loaded {
  std::shared_ptr<const Weights> weights;
  std::string refusal;
  std::string log;
};

// The tiny model with its config and tensors as given.
Loaded load(const std::string& config, const std::string& tensors,
            const LoadOptions& options = {}) {
  Loaded out;
  set_log_sink([&](LogLevel, std::string_view text) { out.log += std::string(text) + "\n"; });
  const std::vector<MemoryFile> files{{"config.json", as_bytes(config)},
                                      {"model.safetensors", as_bytes(tensors)}};
  try {
    out.weights = load_weights(files, options);
  } catch (const LoadError& e) {
    out.refusal = e.what();
  }
  set_log_sink({});
  return out;
}

Loaded load(const TensorFile& tensors, const LoadOptions& options = {}) {
  return load(testing::read_file(kTiny + "/config.json"), tensors.serialize(), options);
}

TensorFile tiny() { return TensorFile::parse(testing::read_file(kTiny + "/model.safetensors")); }

// bf16 -> fp32, exactly.
void widen(TensorFile::Entry& e) {
  std::string wide;
  for (std::size_t i = 0; i < e.data.size(); i += 2)
    wide += std::string(2, '\0') + e.data.substr(i, 2);
  e.data = wide;
  e.dtype = "F32";
}

void says(const Loaded& loaded, const std::string& wanted) {
  INFO(loaded.refusal);
  CHECK(loaded.refusal.find(wanted) != std::string::npos);
  CHECK(loaded.refusal.back() == '.');
}

}  // namespace

TEST_CASE("a matrix with a value that is not finite is refused by name where it is quantised") {
  TensorFile tensors = tiny();
  tensors.at(kDown).data.replace(140, 2, "\x80\x7f");  // infinity in bf16
  CHECK(load(tensors).refusal.empty());
  LoadOptions options;
  for (const auto format : {kernels::WeightFormat::int8, kernels::WeightFormat::int4}) {
    options.format = format;
    says(load(tensors, options), "tensor " + kDown + " holds a value that is not finite");
  }
}

TEST_CASE("other towers are skipped and counted, unknown tensors named") {
  TensorFile file = tiny();
  file.entries.push_back({"model.visual.patch.weight", "U8", {4}, "abcd"});
  file.entries.push_back({"model.mtp.norm.weight", "U8", {4}, "abcd"});
  file.entries.push_back({"lm_head.weight", "U8", {4}, "abcd"});
  file.entries.push_back({"model.language_model.layers.9.extra", "U8", {4}, "abcd"});
  const Loaded got = load(file);
  REQUIRE(got.weights);
  CHECK(got.log.find("skipped 1 vision and 16 draft (mtp) tensors") != std::string::npos);
  CHECK(got.log.find("ignored 2 unknown tensors: lm_head.weight, "
                     "model.language_model.layers.9.extra.") != std::string::npos);
  CHECK(hash_of(*got.weights) == hash_of(*load_weights(kTiny)));
}

TEST_CASE("text-only exports without the language_model part load to the same weights") {
  TensorFile file = tiny();
  for (TensorFile::Entry& e : file.entries) {
    const std::string prefix = "model.language_model.";
    if (e.name.starts_with(prefix)) e.name = "model." + e.name.substr(prefix.size());
  }
  const Loaded got = load(file);
  INFO(got.refusal);
  REQUIRE(got.weights);
  CHECK(hash_of(*got.weights) == hash_of(*load_weights(kTiny)));
}

TEST_CASE("matrices in fp32 are rounded to bf16 with a note, vectors are kept") {
  TensorFile file = tiny();
  widen(file.at(kDown));
  widen(file.at(kNorm));
  file.at(kDown).data[1] = '\x11';  // below the precision of bf16
  const Loaded got = load(file);
  INFO(got.refusal);
  REQUIRE(got.weights);
  CHECK(got.log.find("1 matrices stored as F32 or F16 were rounded") != std::string::npos);
  CHECK(hash_of(*got.weights) == hash_of(*load_weights(kTiny)));
  file.at(kNorm).data[1] = '\x11';
  CHECK(hash_of(*load(file).weights) != hash_of(*load_weights(kTiny)));
}

TEST_CASE("a tensor of fp16 ones gives the weights of one of bf16 ones") {
  TensorFile file = tiny();
  TensorFile::Entry& e = file.at(kDown);
  e.dtype = "F16";
  for (std::size_t i = 0; i < e.data.size(); i += 2) {  // 1.0, which both types hold
    e.data[i] = '\x00';
    e.data[i + 1] = '\x3C';
  }
  TensorFile same = file;
  same.at(kDown).dtype = "BF16";
  for (std::size_t i = 0; i < e.data.size(); i += 2) {
    same.at(kDown).data[i] = '\x80';
    same.at(kDown).data[i + 1] = '\x3F';
  }
  CHECK(hash_of(*load(file).weights) == hash_of(*load(same).weights));
}

TEST_CASE("a missing, misshapen or untyped tensor is refused with what was expected") {
  TensorFile file = tiny();
  file.remove(kDown);
  says(load(file), "model.safetensors: tensor " + kDown + " is missing, expected shape [64, 96]");
  file = tiny();
  file.at(kDown).shape = {96, 64};
  says(load(file), "tensor " + kDown + " has shape [96, 64], expected [64, 96] by config.json");
  file = tiny();
  file.at(kDown).dtype = "I16";
  says(load(file), "tensor " + kDown + " has dtype I16, expected BF16, F32 or F16");
  file = tiny();
  file.remove(kEmbed);
  says(load(file), "model.embed_tokens.weight is missing");
  const std::string untied = [] {
    std::string text = testing::read_file(kTiny + "/config.json");
    for (std::size_t at = 0; (at = text.find("embeddings\": true", at)) != std::string::npos;) {
      text.replace(at, 17, "embeddings\": false");
    }
    return text;
  }();
  says(load(untied, tiny().serialize()),
       "tensor lm_head.weight is missing, expected shape [128, 64]");
  says(load("", tiny().serialize()), "expected config.json");
  says(load("{}", tiny().serialize()), "config.json: model_type is missing");
  says(load(untied, ""), "model.safetensors: is 0 bytes");
}

TEST_CASE("a directory without a config is refused, generation_config.json adds eos ids") {
  const TempDir dir;
  CHECK_THROWS_WITH(load_weights(dir.path()), Catch::Contains("config.json: cannot be opened"));
  CHECK_THROWS_WITH(load_weights(dir.file("none")), Catch::Contains("expected a model directory"));
  dir.write("config.json", testing::read_file(kTiny + "/config.json"));
  CHECK_THROWS_WITH(load_weights(dir.path()), Catch::Contains("model.safetensors in it"));
  dir.write("model.safetensors", testing::read_file(kTiny + "/model.safetensors"));
  dir.write("generation_config.json", "{\"eos_token_id\": [7, 0]}");
  CHECK(config_of(*load_weights(dir.path())).eos_token_ids == std::vector<std::int32_t>{0, 7});
}

TEST_CASE("random weights are the same in memory, on disk and when made again") {
  ModelConfig shape = shape_by_name("tiny");
  for (const bool tied : {true, false}) {
    shape.tie_word_embeddings = tied;
    const TempDir dir;
    std::uint64_t last = 0;
    write_model_directory(shape, 5, dir.file("made"), [&](std::uint64_t done, std::uint64_t total) {
      CHECK(done > last);
      CHECK(done <= total);
      last = done;
    });
    std::uint64_t loaded_bytes = 0;
    std::uint64_t total_bytes = 0;
    LoadOptions options;
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      CHECK(done > loaded_bytes);
      loaded_bytes = done;
      total_bytes = total;
    };
    const auto loaded = load_weights(dir.file("made"), options);
    CHECK(loaded_bytes == total_bytes);
    CHECK(last == total_bytes);
    const auto made = random_weights(shape, 5);
    CHECK(hash_of(*loaded) == hash_of(*made));
    CHECK(logits_of(loaded) == logits_of(made));
    CHECK(hash_of(*random_weights(shape, 6)) != hash_of(*made));
    for (const auto& file : std::filesystem::directory_iterator(dir.file("made"))) {
      CHECK(file.path().string().find(".tmp") == std::string::npos);
    }
  }
}

TEST_CASE("a model that cannot be written says so") {
  const TempDir dir;
  dir.write("file", "x");
  CHECK_THROWS_AS(write_model_directory(shape_by_name("tiny"), 1, dir.file("file")), LoadError);
  CHECK_THROWS_AS(write_model_directory(shape_by_name("tiny"), 1, "/proc/none/model"), LoadError);
}

TEST_CASE("activations of a random model keep a sane size") {
  for (const char* name : {"tiny", "demo"}) {
    const std::vector<float> logits = logits_of(random_weights(shape_by_name(name), 3));
    double square = 0;
    for (const float x : logits) square += static_cast<double>(x) * x;
    const double rms = std::sqrt(square / static_cast<double>(logits.size()));
    INFO(name << ": logits of size " << rms);
    CHECK(rms > 0.3);
    CHECK(rms < 10);
  }
}

TEST_CASE("the hash does not depend on how its input is cut") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  Hash64 whole;
  whole.add(text.data(), text.size());
  for (std::size_t step = 1; step < 20; ++step) {
    Hash64 cut;
    for (std::size_t at = 0; at < text.size(); at += step) {
      cut.add(text.data() + at, std::min(step, text.size() - at));
    }
    CHECK(cut.value() == whole.value());
  }
  Hash64 longer = whole;
  longer.add("", 1);
  CHECK(longer.value() != whole.value());
}
