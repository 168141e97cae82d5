// SPDX-License-Identifier: Apache-2.0
// Whether a model directory is the one that a file of its weights was made of.
#include <algorithm>
#include <filesystem>
#include <string>

#include "base/check.hpp"
#include "model/net/mapped_file.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/safetensors.hpp"
#include "model/net/weights_file.hpp"

namespace cairn::model {
namespace {

// Of a file's content. Training changes all of a tensor, so that few places tell checkpoints apart;
// smaller changes show in the time of change.
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

}  // namespace

std::optional<SourceFiles> look_at_files(const std::string& directory) {
  namespace fs = std::filesystem;
  SourceFiles source;
  Hash64 hash;
  std::size_t tensor_files = 0;
  for (const std::string& name : Checkpoint::files_in(directory)) {
    const fs::path path = fs::path(directory) / name;
    hash.add(name.c_str(), name.size() + 1);
    std::error_code missing;
    const fs::file_time_type changed = fs::last_write_time(path, missing);
    if (missing) continue;  // what a load says of it, naming a tensor, helps more
    source.newest = std::max(source.newest, changed);
    const MappedFile file(path.string());
    const std::uint64_t size = file.bytes().size();
    hash.add(&size, sizeof size);
    add_samples(file.bytes(), hash);
    if (!name.ends_with(".json")) ++tensor_files;
  }
  if (tensor_files == 0) return std::nullopt;
  source.hash = hash.value();
  return source;
}

}  // namespace cairn::model
