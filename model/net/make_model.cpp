// SPDX-License-Identifier: Apache-2.0
// Random models: in memory for tests, on disk for everybody else.
#include <algorithm>
#include <filesystem>

#include "base/check.hpp"
#include "model/net/new_file.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/random_tensor.hpp"
#include "model/net/weights.hpp"

namespace cairn::model {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 18;

std::int64_t item_bytes(const TensorSpec& spec) { return spec.published_f32 ? 4 : 2; }

void to_bf16_rows(const std::vector<float>& values, std::vector<Bf16>& out) {
  out.resize(values.size());
  std::transform(values.begin(), values.end(), out.begin(), to_bf16);
}

}  // namespace

std::shared_ptr<const Weights> random_weights(const ModelConfig& config, std::uint64_t seed,
                                              kernels::WeightFormat format) {
  WeightsBuilder builder(config, format);
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
  std::vector<TensorEntry> entries;
  entries.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    entries.push_back(
        {file_name_of(spec, kTextPrefix), spec.published_f32 ? "F32" : "BF16", spec.shape});
  }
  NewFile weights((root / "model.safetensors").string());
  const std::string header = safetensors_header(entries);
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
  NewFile json((root / "config.json").string());
  const std::string text = write_model_config(config);
  json.write(text.data(), text.size());
  json.commit();
}

}  // namespace cairn::model
