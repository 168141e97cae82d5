// SPDX-License-Identifier: Apache-2.0
// Whether a model directory is the one that a file of its weights was made of.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "model/net/mapped_file.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/weights_file.hpp"

namespace cairn::model {
namespace {

// Of a file's content. Training changes all of a tensor, so few places tell checkpoints apart even
// where somebody has set their times of change alike.
constexpr std::size_t kSamples = 64;
constexpr std::size_t kSampleBytes = 2048;

void add_samples(std::span<const std::byte> bytes, Hash64& hash) {
  if (bytes.size() <= kSamples * kSampleBytes) {
    hash.add(bytes.data(), bytes.size());
    return;
  }
  const std::size_t last = bytes.size() - kSampleBytes;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t at = last / (kSamples - 1) * i;
    hash.add(bytes.data() + at, kSampleBytes);
  }
}

bool holds_tensors(const std::filesystem::path& file) {
  return file.extension() == ".safetensors" || file.filename() == "model.safetensors.index.json";
}

}  // namespace

std::optional<std::uint64_t> hash_of_files(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator it(directory, error), end; it != end;
       it.increment(error)) {
    if (!holds_tensors(it->path()) || !it->is_regular_file(ignored)) continue;
    names.push_back(it->path().filename().string());
  }
  // Not the same as no files: then any cache file of this configuration would do.
  if (error) throw LoadError(directory + ": cannot be listed: " + error.message() + ".");
  if (names.empty()) return std::nullopt;
  std::sort(names.begin(), names.end());
  Hash64 hash;
  for (const std::string& name : names) {
    const std::string path = (std::filesystem::path(directory) / name).string();
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) throw LoadError(path + ": cannot be looked at.");
    const std::int64_t facts[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    hash.add(name.c_str(), name.size() + 1);
    hash.add(facts, sizeof facts);
    add_samples(MappedFile(path).bytes(), hash);
  }
  return hash.value();
}

}  // namespace cairn::model
