// SPDX-License-Identifier: Apache-2.0
#include "actors/disk_tier.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "engine/cache/disk_root.hpp"
#include "model/net/config.hpp"

namespace cairn::actors {
namespace {

constexpr std::uint64_t kDefaultDiskCap = 64ULL << 30U;
constexpr std::uint64_t kStatBlock = 512;  // unit of st_blocks

// Of what a store holds already, as far as it can be read.
std::uint64_t bytes_under(const std::filesystem::path& dir) {
  namespace fs = std::filesystem;
  std::uint64_t sum = 0;
  std::error_code error, gone;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    struct stat info {};
    // Stores hold files only; whatever else was named by mistake is not walked through.
    if (it.depth() > 0) it.disable_recursion_pending();
    const bool regular = it->symlink_status(gone).type() == fs::file_type::regular;
    if (regular && ::stat(it->path().c_str(), &info) == 0) {
      sum += static_cast<std::uint64_t>(info.st_blocks) * kStatBlock;
    }
  }
  return sum;
}

// What is free where the directory is or will be; nothing where that cannot be told.
std::optional<std::uint64_t> free_bytes_at(const std::string& dir) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(dir, error);
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const auto space = std::filesystem::space(place, error);
  return error ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

// Tokens reach the disk as ids: the same ids must mean the same text.
std::uint64_t vocabulary_hash(const text::Tokenizer& tokenizer) {
  std::string all;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.id_to_bytes(id);
    all += std::to_string(bytes.size()) + ":";
    all += bytes;
  }
  return engine::hash_bytes(all);
}

// "cuda:1 NVIDIA H200 (sm_90)": the bits are the kind's, whichever of the machine's it is.
std::string device_kind(const std::string& device) {
  const auto space = device.find(' ');
  return device.rfind("cuda:", 0) == 0 && space != std::string::npos ? device.substr(space + 1)
                                                                     : device;
}

// What cannot work in a while either ends the start.
std::unique_ptr<engine::DiskStore> go_without(const Error& why) {
  if (why.code == ErrorCode::bad_request) throw LoadError(why.message);
  log(LogLevel::warning, "serving without a disk cache: " + why.message);
  return nullptr;
}

// A store opened with so little room would delete the states that it holds.
std::unique_ptr<engine::DiskStore> default_too_small(const EngineOptions& options,
                                                     std::uint64_t least) {
  const auto usable = engine::DiskRoot::open(options.disk_dir, true);
  if (!usable) return go_without(usable.error());
  return go_without({ErrorCode::unavailable,
                     "a quarter of what is free for " + options.disk_dir + " is " +
                         format_bytes(options.disk_bytes) + " and holds no state below " +
                         format_bytes(least) + "; --disk-bytes sets what it may take",
                     {}});
}

}  // namespace

std::uint64_t default_disk_bytes(const std::string& dir, std::optional<std::uint64_t> free) {
  if (!free) return kDefaultDiskCap;
  return std::min(kDefaultDiskCap, (*free + bytes_under(dir)) / 4);
}

engine::Fingerprint fingerprint_of(const engine::ModelBundle& bundle,
                                   const model::BackendInfo& backend) {
  engine::Fingerprint f;
  f.weights = model::hash_of(*bundle.weights);
  f.config = engine::hash_bytes(model::write_model_config(model::config_of(*bundle.weights)));
  f.tokenizer = bundle.tokenizer ? vocabulary_hash(*bundle.tokenizer) : 0;
  f.weight_format = backend.weights;
  f.kv = backend.kv;
  f.activations = backend.activations;
  f.isa = backend.isa;
  f.device = device_kind(backend.device);
  f.gemm = backend.gemm;
  return f;
}

std::unique_ptr<engine::DiskStore> open_disk_tier(EngineOptions& options,
                                                  const engine::ModelBundle& bundle,
                                                  const model::BackendInfo& backend,
                                                  const model::MemoryLayout& layout,
                                                  std::shared_ptr<model::Arena> arena) {
  if (options.disk_dir.empty()) return nullptr;
  // A state without a whole block of KV is the least that is of use.
  const std::uint64_t least =
      engine::kDiskIndexReserve + layout.state_bytes + 2 * layout.kv_block_bytes;
  if (options.disk_bytes > 0 && options.disk_bytes < least) {
    throw LoadError("the disk cache is to take " + format_bytes(options.disk_bytes) +
                    " and holds no state below " + format_bytes(least));
  }
  if (options.disk_bytes == 0) {
    options.disk_bytes = default_disk_bytes(options.disk_dir, free_bytes_at(options.disk_dir));
    if (options.disk_bytes < least) return default_too_small(options, least);
  }
  engine::DiskOptions disk;
  disk.dir = options.disk_dir;
  disk.max_bytes = options.disk_bytes;
  disk.max_age = options.disk_max_age;
  disk.fingerprint = fingerprint_of(bundle, backend);
  disk.layout = layout;
  disk.arena = std::move(arena);
  auto opened = engine::DiskStore::open(std::move(disk));
  return opened ? opened.take() : go_without(opened.error());
}

}  // namespace cairn::actors
