// SPDX-License-Identifier: Apache-2.0
// Quantised weights kept in a file for the next load.
#include <sys/file.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "model/net/backend.hpp"
#include "model/net/new_file.hpp"
#include "model/net/safetensors.hpp"
#include "model/net/weights.hpp"
#include "model/net/weights_file.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exactness_sequence.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::kernels::WeightFormat;
using cairn::testing::logits_of;
using cairn::testing::TempDir;

namespace fs = std::filesystem;

namespace {

struct Loaded {
  std::shared_ptr<const Weights> weights;
  std::string log;
  std::uint64_t read = 0;     // bytes of tensors, or of the cache file
  std::uint64_t written = 0;  // of the cache file
};

Loaded load(const std::string& model, WeightFormat format, const std::string& cache) {
  Loaded out;
  set_log_sink([&](LogLevel level, std::string_view text) {
    out.log += (level == LogLevel::warning ? "warning: " : "") + std::string(text) + "\n";
  });
  LoadOptions options;
  options.format = format;
  options.cache_file = cache;
  options.progress = [&](std::uint64_t done, std::uint64_t) { out.read = done; };
  options.store_progress = [&](std::uint64_t done, std::uint64_t) { out.written = done; };
  const struct Quiet {  // also after a throw: the sink writes to what is gone then
    ~Quiet() { set_log_sink({}); }
  } quiet{};
  out.weights = load_weights(model, options);
  return out;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A tiny model on disk, untied so that the embedding is a matrix of its own.
struct Model {
  explicit Model(std::uint64_t seed = 5) { write(seed); }
  void write(std::uint64_t seed) const {
    ModelConfig shape = shape_by_name("tiny");
    shape.tie_word_embeddings = false;
    write_model_directory(shape, seed, dir.path());
  }
  std::string cache(WeightFormat format = WeightFormat::int8) const {
    return weights_cache_file(dir.path(), format, "auto");
  }
  TempDir dir;
};

// What the next load says of a cache file that was changed, after which it must serve again.
std::string said_of(const Model& model, const std::string& content) {
  std::ofstream(model.cache(), std::ios::binary) << content;
  const Loaded got = load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK(got.written > 0);
  CHECK(logits_of(got.weights) ==
        logits_of(load(model.dir.path(), WeightFormat::int8, "").weights));
  CHECK(load(model.dir.path(), WeightFormat::int8, model.cache()).log.empty());
  return got.log;
}

}  // namespace

TEST_CASE("weights read from their cache file are those that were quantised, bit for bit") {
  const Model model;
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    const std::string cache = model.cache(format);
    const Loaded without = load(model.dir.path(), format, "");
    const Loaded first = load(model.dir.path(), format, cache);
    CHECK(has(first.log, "to be read by the next start"));
    CHECK(first.written == fs::file_size(cache));
    const Loaded second = load(model.dir.path(), format, cache);
    INFO(second.log);
    CHECK(second.log.empty());
    CHECK(second.written == 0);
    CHECK(second.read > 0);
    CHECK(format_of(*second.weights) == format);
    CHECK(hash_of(*second.weights) == hash_of(*without.weights));
    CHECK(logits_of(second.weights) == logits_of(without.weights));
    CHECK(logits_of(first.weights) == logits_of(without.weights));
  }
}

TEST_CASE("a start reads nothing but the cache file, its configuration and its tokenizer") {
  const Model model;
  const Loaded first = load(model.dir.path(), WeightFormat::int8, model.cache());
  fs::remove(model.dir.file("model.safetensors"));
  const Loaded second = load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK(second.log.empty());
  CHECK(logits_of(second.weights) == logits_of(first.weights));
  CHECK_THROWS_AS(load(model.dir.path(), WeightFormat::int4, ""), LoadError);
}

TEST_CASE("a cache file of another model, format or configuration is made anew") {
  const Model model;
  load(model.dir.path(), WeightFormat::int8, model.cache());
  model.write(6);
  const Loaded changed = load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK(has(changed.log, "is made anew: it was made of other files"));
  CHECK(hash_of(*changed.weights) ==
        hash_of(*load(model.dir.path(), WeightFormat::bf16, "").weights));
  CHECK(has(load(model.dir.path(), WeightFormat::int4, model.cache()).log,
            "its format is int8, expected int4"));
  std::string config = testing::read_file(model.dir.file("config.json"));
  const auto theta = config.find("rope_theta");
  REQUIRE(theta != std::string::npos);
  model.dir.write("config.json", config.replace(config.find('1', theta), 1, "2"));
  CHECK(has(load(model.dir.path(), WeightFormat::int4, model.cache()).log, "its configuration is"));
  CHECK(load(model.dir.path(), WeightFormat::int4, model.cache()).log.empty());
}

TEST_CASE("the end-of-text ids of a model may change without its weights being quantised again") {
  const Model model;
  load(model.dir.path(), WeightFormat::int8, model.cache());
  model.dir.write("generation_config.json", "{\"eos_token_id\": [7, 0]}");
  const Loaded got = load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK(got.log.empty());
  CHECK(config_of(*got.weights).eos_token_ids == std::vector<std::int32_t>{0, 7});
}

TEST_CASE("a damaged or truncated cache file is noticed wherever it was hit, and made anew") {
  const Model model;
  load(model.dir.path(), WeightFormat::int8, model.cache());
  const std::string good = testing::read_file(model.cache());
  const std::size_t header = good.find('}', good.find("checksums"));
  for (const std::size_t at : {header + 300, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    CHECK(has(said_of(model, bad), "it is damaged at byte"));
  }
  CHECK(has(said_of(model, good.substr(0, good.size() - 1)), "truncated"));
  CHECK(has(said_of(model, good.substr(0, 100)), "truncated"));
  CHECK(has(said_of(model, ""), "is made anew"));
  std::string other = good;
  other.replace(other.find("layers.0.out"), 12, "layers.0.uot");
  CHECK(has(said_of(model, other), "its tensors are not those of this model"));
  const std::string model_file = testing::read_file(model.dir.file("model.safetensors"));
  CHECK(has(said_of(model, model_file), "it is no file of weights in memory"));
}

TEST_CASE("a cache file that cannot be written costs a warning and nothing else") {
  const Model model;
  const Loaded none = load(model.dir.path(), WeightFormat::int8, "/proc/none/int8.weights");
  CHECK(has(none.log, "warning: /proc/none/int8.weights: cannot be written: "));
  CHECK(has(none.log, "The next start will quantise again."));
  REQUIRE(none.weights);
  set_failpoints("model.write=fail");  // the disk is full
  const Loaded full = load(model.dir.path(), WeightFormat::int8, model.cache());
  set_failpoints("");
  CHECK(has(full.log, "warning: " + model.cache() + ": cannot be written: No space left"));
  REQUIRE(full.weights);
  for (const auto& file : fs::directory_iterator(model.dir.path())) {
    INFO(file.path());
    CHECK(
        (file.path().filename() == "config.json" || file.path().filename() == "model.safetensors"));
  }
  LoadOptions options;
  options.format = WeightFormat::int8;
  options.cache_file = "/proc/none/int8.weights";
  CHECK_THROWS_AS(write_weights_cache(model.dir.path(), options), LoadError);
}

TEST_CASE("what a killed writer left of a cache file goes with the next write") {
  const Model model;
  const std::string left = model.cache() + ".tmp.0123456789abcdef";
  const std::string held = model.cache() + ".tmp.0000000000000001";
  const std::string other = model.cache() + ".tmp.mine";
  for (const std::string& file : {left, held, other}) std::ofstream(file) << "half of it";
  std::FILE* const writer = std::fopen(held.c_str(), "r");  // of a process that still writes
  REQUIRE(writer != nullptr);
  REQUIRE(::flock(::fileno(writer), LOCK_EX) == 0);
  load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(held));
  CHECK(fs::exists(other));
  std::fclose(writer);
}

TEST_CASE("two writers of one file at once do not touch each other's: the later name wins") {
  const TempDir dir;
  NewFile one(dir.file("f"));
  NewFile two(dir.file("f"));  // of the same process, as in two containers with the same ids
  one.write("one", 3);
  two.write("two", 3);
  one.commit(false);
  CHECK(testing::read_file(dir.file("f")) == "one");
  two.commit(false);
  CHECK(testing::read_file(dir.file("f")) == "two");
}

TEST_CASE(
    "a lock that another process keeps is waited for, and then costs the file, not the start") {
  const TempDir dir;
  set_failpoints("model.lock=fail*3");
  NewFile waited(dir.file("f"));
  waited.write("one", 3);
  waited.commit(false);
  CHECK(testing::read_file(dir.file("f")) == "one");
  set_failpoints("model.lock=fail");
  CHECK_THROWS_WITH(NewFile(dir.file("g"), std::chrono::milliseconds(20)),
                    Catch::Contains(dir.file("g") + ": cannot be written: another process has") &&
                        Catch::Contains("for 20 ms"));
  set_failpoints("");
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a new file replaces regular files only") {
  const TempDir dir;
  fs::create_directory(dir.file("d"));
  fs::create_symlink("/dev/null", dir.file("null"));
  for (const char* name : {"d", "null"}) {
    CHECK_THROWS_WITH(NewFile(dir.file(name)), Catch::EndsWith("it is no regular file."));
  }
}

TEST_CASE("a place for a cache file that is of no use is told before any tensor is read") {
  const Model model;
  fs::create_directory(model.dir.file("d"));
  LoadOptions options;
  options.format = WeightFormat::int8;
  bool read = false;
  options.progress = [&](std::uint64_t, std::uint64_t) { read = true; };
  const auto refused = [&](const std::string& file, const char* why) {
    INFO(file);
    options.cache_file = file;
    options.cache_needed = true;
    CHECK_THROWS_WITH(load_weights(model.dir.path(), options), Catch::Contains(why));
    CHECK_THROWS_WITH(write_weights_cache(model.dir.path(), options), Catch::Contains(why));
  };
  refused("/proc/none/int8.weights", "/proc/none/int8.weights: cannot be written: No such");
  refused(model.dir.file("d"), "no regular file");
  set_failpoints("model.reserve=fail");
  refused(model.cache(), "cannot be written: No space left");
  set_failpoints("");
  options.cache_file = model.dir.file("model.safetensors");
  CHECK_THROWS_WITH(write_weights_cache(model.dir.path(), options),
                    Catch::Contains("another kind"));
  CHECK_FALSE(read);
  CHECK(fs::file_size(model.dir.file("model.safetensors")) > 1000);
}

TEST_CASE("a model whose files have another time of change is compared tensor by tensor") {
  const Model model;
  const std::string file = model.dir.file("model.safetensors");
  load(model.dir.path(), WeightFormat::int8, model.cache());
  const auto later = fs::last_write_time(file) + std::chrono::hours(1);
  fs::last_write_time(file, later);  // as cp does
  const Loaded copied = load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK(has(copied.log, "their tensors are those it was made of"));
  CHECK(copied.written == 0);
  CHECK(load(model.dir.path(), WeightFormat::int8, model.cache()).log.empty());

  std::string content = testing::read_file(file);
  REQUIRE(content.size() > 300'000);  // more than is looked at where times agree
  const std::uint64_t before = hash_of(*copied.weights);
  const std::size_t between = content.size() / 63 * 40 + 3500;  // two of 64 samples
  content[between] = static_cast<char>(content[between] ^ 1);
  model.dir.write("model.safetensors", content);
  fs::last_write_time(file, later);
  CHECK(load(model.dir.path(), WeightFormat::int8, model.cache()).log.empty());  // what is not seen
  fs::last_write_time(file, later + std::chrono::seconds(1));
  const Loaded changed = load(model.dir.path(), WeightFormat::int8, model.cache());
  CHECK(has(changed.log, "is made anew: its model's tensors are others"));
  CHECK(hash_of(*changed.weights) != before);
}

TEST_CASE("a cache file in a read-only place costs one line a start, and serves where it can") {
  const Model model;
  const auto start = [&] { return load(model.dir.path(), WeightFormat::int8, model.cache()); };
  const auto one_line = [](const Loaded& l) {
    return has(l.log, "warning: ") && l.log.find('\n') + 1 == l.log.size();
  };
  start();
  const std::string file = model.dir.file("model.safetensors");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  set_failpoints("model.time=fail;model.reserve=fail");  // as on a read-only file system
  for (int i = 0; i < 2; ++i) {
    const Loaded copied = start();
    CHECK(one_line(copied));
    CHECK(has(copied.log, "cannot be given the time of change"));
    CHECK(has(copied.log, "touch -r"));
  }
  model.write(6);
  const Loaded other = start();
  set_failpoints("");
  CHECK(one_line(other));
  CHECK(has(other.log,
            "cannot be written: No space left on device. What lies there is of no use: "
            "it was made of other files. The next start"));
  CHECK(hash_of(*other.weights) ==
        hash_of(*load(model.dir.path(), WeightFormat::bf16, "").weights));
}

TEST_CASE("a model is told apart by the shards that its index names, whatever they are called") {
  const Model model;
  std::string index = R"({"weight_map": {)";
  const Checkpoint files = Checkpoint::open_directory(model.dir.path());
  for (const std::string_view name : files.names()) {
    index += (index.back() == '{' ? "\"" : ",\"") + std::string(name) + R"(": "part-1")";
  }
  fs::rename(model.dir.file("model.safetensors"), model.dir.file("part-1"));
  model.dir.write("model.safetensors.index.json", index + "}}");
  REQUIRE(load(model.dir.path(), WeightFormat::int8, model.cache()).written > 0);
  CHECK(load(model.dir.path(), WeightFormat::int8, model.cache()).log.empty());
  const Model other(6);
  fs::copy(other.dir.file("model.safetensors"), model.dir.file("part-1"),
           fs::copy_options::overwrite_existing);
  CHECK(has(load(model.dir.path(), WeightFormat::int8, model.cache()).log, "is made anew"));
  fs::remove(model.dir.file("part-1"));  // its index alone is no model
  CHECK(load(model.dir.path(), WeightFormat::int8, model.cache()).log.empty());
}

TEST_CASE("a directory without files of tensors has none to tell apart") {
  const TempDir dir;
  CHECK_FALSE(look_at_files(dir.path()).has_value());
  dir.write("notes.safetensors", "no file that a load would read");
  CHECK_FALSE(look_at_files(dir.path()).has_value());
}

TEST_CASE("a cache file lies beside its model, in a directory under its own name, or nowhere") {
  CHECK(weights_cache_file("/m/a", WeightFormat::int8, "auto") == "/m/a/cairn-int8.weights");
  CHECK(weights_cache_file("/m/a", WeightFormat::int8, "off").empty());
  CHECK(weights_cache_file("/m/a", WeightFormat::bf16, "auto").empty());
  const std::string in = weights_cache_file("/m/a", WeightFormat::int4, "/c");
  CHECK(in.starts_with("/c/a-"));
  CHECK(in.ends_with("-int4.weights"));
  CHECK(in != weights_cache_file("/n/a", WeightFormat::int4, "/c"));
  CHECK(in == weights_cache_file("/m/x/../a", WeightFormat::int4, "/c"));
}
