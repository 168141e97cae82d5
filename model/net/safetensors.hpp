// SPDX-License-Identifier: Apache-2.0
// Reader of the safetensors format: 8 bytes little-endian header length, a JSON header, raw data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/net/mapped_file.hpp"

namespace cairn::model {

/// A named piece of memory that stands for a file (the embedded demo model).
struct MemoryFile {
  std::string name;
  std::span<const std::byte> bytes;
};

/// One tensor where it lies in its file; rows contiguous, little endian.
struct TensorView {
  std::string name;
  std::string dtype;                // as spelled in the file: "BF16"
  std::vector<std::int64_t> shape;  // outermost first
  std::span<const std::byte> data;  // [product of shape] dtype
  std::int64_t elements() const;
};

/// "[1024, 4096]".
std::string format_shape(std::span<const std::int64_t> shape);

/// Bytes of one element; 0 when the spelling is unknown.
std::size_t dtype_size(std::string_view dtype);

/// Checks the header of one file and lists its tensors in file order; views point into `bytes`. Any
/// byte string is safe to pass. Throws LoadError: file, tensor, expectation.
std::vector<TensorView> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& file);

/// A tensor of a file to be written.
struct TensorEntry {
  std::string name;   // free of quotes and control characters
  std::string dtype;  // one that dtype_size knows
  std::vector<std::int64_t> shape;
};

/// What stands in a file before the data of these tensors, which follow one another in this order.
/// The data begin at a multiple of 8 bytes.
std::string safetensors_header(std::span<const TensorEntry> tensors);

/// All tensors of a model: one file or the shards that an index names. Owns the mappings; memory
/// files stay the caller's. Immutable, so thread-safe. Throws LoadError: file, tensor, expectation.
class Checkpoint {
 public:
  /// `model.safetensors.index.json` when present, else `model.safetensors`.
  static Checkpoint open_directory(const std::string& directory);
  /// The names of the files that open_directory reads, whether they are there or not: an index and
  /// its shards, or the only one. None when there is neither.
  static std::vector<std::string> files_in(const std::string& directory);
  static Checkpoint from_memory(std::span<const MemoryFile> files);

  const TensorView* find(std::string_view name) const;
  /// The file that `name` lies in, for messages.
  const std::string& file_of(std::string_view name) const;
  /// What to name when a tensor is in no file: the index, or the only file.
  const std::string& source() const { return source_; }
  std::vector<std::string_view> names() const;
  /// Sum of the tensors' bytes.
  std::uint64_t data_bytes() const;
  /// Hint that a mapped tensor will not be read again; keeps a load from holding the model twice.
  void drop(const TensorView& tensor) const;

 private:
  struct Entry {
    TensorView tensor;
    std::size_t file = 0;
  };
  struct File {
    std::string name;
    std::unique_ptr<MappedFile> mapping;  // null: caller's memory
  };

  void add_all(std::vector<TensorView> tensors, std::size_t file);
  void apply_index(std::string_view json);

  std::string source_;
  std::vector<File> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace cairn::model
