// SPDX-License-Identifier: Apache-2.0
// Random models: in memory for tests, on disk for everybody else.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/check.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/random_tensor.hpp"
#include "model/net/weights.hpp"

namespace cairn::model {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 18;

// A file under a temporary name that gets its own in commit(); removed when that never happens.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path)
      : path_(path.string()), temporary_(path_ + ".tmp." + std::to_string(::getpid())) {
    file_ = std::fopen(temporary_.c_str(), "wbe");
    if (file_ == nullptr) fail();
  }
  ~NewFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!done_) std::remove(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_) != bytes) fail();
  }
  void commit() {
    if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
    std::FILE* const file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) fail();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    done_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    throw LoadError(path_ + ": cannot be written: " + std::strerror(errno) + ".");
  }
  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool done_ = false;
};

std::int64_t item_bytes(const TensorSpec& spec) { return spec.published_f32 ? 4 : 2; }

// Length and JSON header, padded with spaces so that the data begins at a multiple of 8.
std::string safetensors_header(const std::vector<TensorSpec>& specs) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const TensorSpec& spec : specs) {
    json += ",\"" + file_name_of(spec, kTextPrefix) + "\":{\"dtype\":\"" +
            (spec.published_f32 ? "F32" : "BF16") + "\",\"shape\":" + format_shape(spec.shape) +
            ",\"data_offsets\":[" + std::to_string(at) + ",";
    at += spec.elements() * item_bytes(spec);
    json += std::to_string(at) + "]}";
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return out + json;
}

void to_bf16_rows(const std::vector<float>& values, std::vector<Bf16>& out) {
  out.resize(values.size());
  std::transform(values.begin(), values.end(), out.begin(), to_bf16);
}

}  // namespace

std::shared_ptr<const Weights> random_weights(const ModelConfig& config, std::uint64_t seed) {
  WeightsBuilder builder(config);
  std::vector<float> values;
  std::vector<Bf16> rows;
  for (const TensorSpec& spec : tensor_list(config)) {
    RandomTensor tensor(config, seed, spec);
    if (!spec.is_matrix()) {
      tensor.next(spec.elements(), values);
      builder.add_vector(spec, values);
      continue;
    }
    const std::int64_t step = std::max<std::int64_t>(1, kChunkElements / spec.columns());
    for (std::int64_t row = 0; row < spec.rows(); row += step) {
      const std::int64_t n = std::min(step, spec.rows() - row);
      tensor.next(n * spec.columns(), values);
      to_bf16_rows(values, rows);
      builder.add_rows(spec, row, n, rows.data());
    }
  }
  return builder.finish();
}

void write_model_directory(const ModelConfig& config, std::uint64_t seed,
                           const std::string& directory, const LoadProgress& progress) {
  namespace fs = std::filesystem;
  const fs::path root(directory);
  std::error_code error;
  fs::create_directories(root, error);
  if (!fs::is_directory(root)) {
    throw LoadError(directory + ": cannot be created as a directory: " + error.message() + ".");
  }
  const std::vector<TensorSpec> specs = tensor_list(config);
  std::uint64_t total = 0;
  for (const TensorSpec& spec : specs) {
    total += static_cast<std::uint64_t>(spec.elements() * item_bytes(spec));
  }
  NewFile weights(root / "model.safetensors");
  const std::string header = safetensors_header(specs);
  weights.write(header.data(), header.size());
  std::uint64_t done = 0;
  std::vector<float> values;
  std::vector<Bf16> rows;
  for (const TensorSpec& spec : specs) {
    RandomTensor tensor(config, seed, spec);
    for (std::int64_t at = 0; at < spec.elements(); at += kChunkElements) {
      tensor.next(std::min(kChunkElements, spec.elements() - at), values);
      if (spec.published_f32) {
        weights.write(values.data(), values.size() * sizeof(float));
      } else {
        to_bf16_rows(values, rows);
        weights.write(rows.data(), rows.size() * sizeof(Bf16));
      }
      done += values.size() * static_cast<std::uint64_t>(item_bytes(spec));
      if (progress) progress(done, total);
    }
  }
  weights.commit();
  // Last, so that a directory with a config is a complete one.
  NewFile json(root / "config.json");
  const std::string text = write_model_config(config);
  json.write(text.data(), text.size());
  json.commit();
}

}  // namespace cairn::model
