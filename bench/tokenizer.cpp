// SPDX-License-Identifier: Apache-2.0
// Encodes samples and prints the speed (CPU time) as JSON; with --ids it writes the tokens, for
// scripts/compare_tokenizer.py.
//
//   bench_tokenizer TOKENIZER SAMPLES [--special] [--repeat N] [--ids OUT]
//
// TOKENIZER is a tokenizer.json or a model directory. SAMPLES: each one is a 32-bit length
// (little-endian) and as many bytes; OUT: for each sample a 32-bit count and the ids.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/arguments.hpp"
#include "model/text/tokenizer.hpp"

namespace {

// CPU time: other programs on the machine do not count.
double now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string_view> samples_of(std::string_view file) {
  std::vector<std::string_view> samples;
  while (!file.empty()) {
    std::uint32_t length = 0;
    if (file.size() < sizeof length) throw std::runtime_error("a sample's length is cut off");
    std::memcpy(&length, file.data(), sizeof length);
    file.remove_prefix(sizeof length);
    if (file.size() < length) throw std::runtime_error("a sample is cut off");
    samples.push_back(file.substr(0, length));
    file.remove_prefix(length);
  }
  return samples;
}

struct Options {
  std::string tokenizer;
  std::string samples;
  std::string ids;
  bool special = false;
  int repeat = 1;
};

Options parse(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--special") {
      options.special = true;
    } else if (arg == "--repeat" && i + 1 < argc) {
      options.repeat = cairn::bench::whole_number(arg, argv[++i], 1, 1'000'000);
    } else if (arg == "--ids" && i + 1 < argc) {
      options.ids = argv[++i];
    } else {
      names.push_back(arg);
    }
  }
  if (names.size() != 2) throw std::runtime_error("usage: bench_tokenizer TOKENIZER SAMPLES");
  options.tokenizer = names[0];
  options.samples = names[1];
  return options;
}

std::shared_ptr<const cairn::text::Tokenizer> load(const std::string& path) {
  if (std::filesystem::is_directory(path)) return cairn::text::load_tokenizer(path);
  const std::string json = read_file(path);
  return cairn::text::Tokenizer::from_files({.tokenizer_json = json,
                                             .tokenizer_config_json = {},
                                             .vocab_json = {},
                                             .merges_txt = {},
                                             .chat_template_jinja = {}});
}

void write_ids(std::ofstream& out, const std::vector<std::int32_t>& ids) {
  const auto count = static_cast<std::uint32_t>(ids.size());
  out.write(reinterpret_cast<const char*>(&count), sizeof count);
  out.write(reinterpret_cast<const char*>(ids.data()),
            static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
}

void run(const Options& options) {
  const double load_start = now();
  const auto tokenizer = load(options.tokenizer);
  const double load_seconds = now() - load_start;
  const std::string file = read_file(options.samples);
  const auto samples = samples_of(file);
  std::ofstream out;
  if (!options.ids.empty()) out.open(options.ids, std::ios::binary);

  double best = 1e30;
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  for (int turn = 0; turn < options.repeat; ++turn) {
    bytes = tokens = 0;
    double seconds = 0;
    for (const std::string_view sample : samples) {
      const double start = now();
      const auto ids = tokenizer->encode(sample, options.special);
      seconds += now() - start;
      bytes += sample.size();
      tokens += ids.size();
      if (out.is_open() && turn == 0) write_ids(out, ids);
    }
    best = std::min(best, seconds);
  }
  std::printf(
      "{\"load_seconds\": %.3f, \"bytes\": %zu, \"tokens\": %zu, \"seconds\": %.4f, "
      "\"mb_per_second\": %.1f}\n",
      load_seconds, bytes, tokens, best, static_cast<double>(bytes) / best / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_tokenizer: %s\n", error.what());
    return 1;
  }
  return 0;
}
