// SPDX-License-Identifier: Apache-2.0
// Checkpoint: the files of a model and the index that joins them.
#include <filesystem>

#include "base/check.hpp"
#include "base/json.hpp"
#include "model/net/safetensors.hpp"

namespace cairn::model {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

using WeightMap = std::vector<std::pair<std::string, std::string>>;  // tensor, shard

WeightMap parse_index(std::string_view json, const std::string& file) {
  const Result<json::Value> parsed = json::parse(json, 8);
  if (!parsed.ok()) throw LoadError(file + ": not valid JSON: " + parsed.error().message + ".");
  const json::Value* map = parsed->find("weight_map");
  if (map == nullptr || !map->is(json::Kind::object) || map->members().empty()) {
    throw LoadError(file +
                    ": weight_map is missing or empty, expected an object from tensor "
                    "names to files.");
  }
  WeightMap out;
  for (const auto& [tensor, shard] : map->members()) {
    // A shard lies beside its index; anything else could read outside the model directory.
    const std::string& name = shard.text();
    if (!shard.is(json::Kind::string) || name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw LoadError(std::string(file)
                          .append(": tensor ")
                          .append(tensor)
                          .append(": expected the name of a file beside the index."));
    }
    out.emplace_back(tensor, name);
  }
  return out;
}

// Shards with a tensor that each should hold.
std::map<std::string, std::string> shards_of(const std::string& index_file) {
  std::map<std::string, std::string> first_use;
  for (auto& [tensor, shard] : parse_index(read_text_file(index_file), index_file)) {
    first_use.emplace(shard, tensor);
  }
  return first_use;
}

std::string last_part(const std::string& name) {
  return std::filesystem::path(name).filename().string();
}

}  // namespace

void Checkpoint::add_all(std::vector<TensorView> tensors, std::size_t file) {
  for (TensorView& t : tensors) {
    const auto [it, fresh] = tensors_.try_emplace(t.name);
    if (!fresh) {
      throw LoadError(files_[file].name + ": tensor " + t.name + " is also in " +
                      files_[it->second.file].name + ", expected in one file only.");
    }
    it->second = {std::move(t), file};
  }
}

// The index decides: every tensor it names must be in the file it names. Checked after all shards
// are read, so that a tensor in the wrong shard can be told from one that is nowhere.
void Checkpoint::apply_index(std::string_view json) {
  for (const auto& [tensor, shard] : parse_index(json, source_)) {
    const auto it = tensors_.find(tensor);
    if (it == tensors_.end() || last_part(files_[it->second.file].name) != shard) {
      std::string what = source_;
      what.append(": tensor ").append(tensor).append(" is not in ").append(shard);
      if (it != tensors_.end()) what.append(" but in ").append(files_[it->second.file].name);
      throw LoadError(what.append(", expected it there."));
    }
  }
}

std::vector<std::string> Checkpoint::files_in(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path root(directory);
  // Not the same as no files: who may not look must not be told that there are none.
  const auto there = [&](const char* name) {
    std::error_code error;
    const bool found = fs::exists(root / name, error);
    if (error) throw LoadError((root / name).string() + ": " + error.message() + ".");
    return found;
  };
  if (!there(kIndex))
    return there(kSingle) ? std::vector<std::string>{kSingle} : std::vector<std::string>{};
  std::vector<std::string> names{kIndex};
  for (const auto& [shard, tensor] : shards_of((root / kIndex).string())) names.push_back(shard);
  return names;
}

Checkpoint Checkpoint::open_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) {
    throw LoadError(directory + ": expected a model directory.");
  }
  const fs::path root(directory);
  Checkpoint c;
  const bool sharded = fs::exists(root / kIndex, ignored);
  if (!sharded && !fs::exists(root / kSingle, ignored)) {
    throw LoadError(directory + ": expected " + kIndex + " or " + kSingle + " in it.");
  }
  std::vector<std::string> shards{kSingle};
  std::string index;
  c.source_ = (root / (sharded ? kIndex : kSingle)).string();
  if (sharded) {
    index = read_text_file(c.source_);
    shards.clear();
    for (const auto& [shard, tensor] : shards_of(c.source_)) {
      if (!fs::is_regular_file(root / shard, ignored)) {
        std::string what = c.source_;
        what.append(": tensor ").append(tensor).append(" is to be in ").append(shard);
        throw LoadError(what.append(", expected that file in the directory."));
      }
      shards.push_back(shard);
    }
  }
  for (const std::string& shard : shards) {
    const std::string path = (root / shard).string();
    c.files_.push_back({path, std::make_unique<MappedFile>(path)});
    c.add_all(parse_safetensors(c.files_.back().mapping->bytes(), path), c.files_.size() - 1);
  }
  if (sharded) c.apply_index(index);
  return c;
}

Checkpoint Checkpoint::from_memory(std::span<const MemoryFile> files) {
  Checkpoint c;
  c.source_ = kSingle;
  std::string_view index;
  for (const MemoryFile& f : files) {
    const std::string name = last_part(f.name);
    if (name == kIndex) {
      index = {reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size()};
      c.source_ = f.name;
    } else if (name.ends_with(".safetensors")) {
      c.files_.push_back({f.name, nullptr});
      c.add_all(parse_safetensors(f.bytes, f.name), c.files_.size() - 1);
    }
  }
  if (c.files_.empty()) {
    throw LoadError("Embedded model: expected " + std::string(kSingle) + " among its files.");
  }
  if (!index.empty()) c.apply_index(index);
  return c;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second.tensor;
}

const std::string& Checkpoint::file_of(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? source_ : files_[it->second.file].name;
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, entry] : tensors_) out.push_back(name);
  return out;
}

std::uint64_t Checkpoint::data_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, entry] : tensors_) sum += entry.tensor.data.size();
  return sum;
}

void Checkpoint::drop(const TensorView& tensor) const {
  const auto it = tensors_.find(tensor.name);
  if (it == tensors_.end()) return;
  const auto& mapping = files_[it->second.file].mapping;
  if (mapping) mapping->drop(tensor.data);
}

}  // namespace cairn::model
