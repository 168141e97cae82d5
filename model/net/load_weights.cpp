// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/dtype.hpp"
#include "model/net/host_limits.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/weights.hpp"
#include "model/net/weights_file.hpp"

namespace cairn::model {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 18;  // packed by one thread at a time

// Elements [begin, begin + n) of a tensor as fp32. A file promises no alignment, hence the copies.
void read_f32(const TensorView& t, std::int64_t begin, std::int64_t n, float* out) {
  const std::byte* from = t.data.data() + static_cast<std::size_t>(begin) * dtype_size(t.dtype);
  if (t.dtype == "F32") {
    std::memcpy(out, from, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  const bool half = t.dtype == "F16";
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + i * 2, sizeof bits);
    out[i] = half ? to_float(F16{bits}) : to_float(Bf16{bits});
  }
}

// The same as bf16; `copy` holds them when they cannot be read in place.
const Bf16* read_bf16(const TensorView& t, std::int64_t begin, std::int64_t n,
                      std::vector<Bf16>& copy) {
  const std::byte* from = t.data.data() + static_cast<std::size_t>(begin) * dtype_size(t.dtype);
  const bool aligned = reinterpret_cast<std::uintptr_t>(from) % alignof(Bf16) == 0;
  if (t.dtype == "BF16" && aligned) return reinterpret_cast<const Bf16*>(from);
  copy.resize(static_cast<std::size_t>(n));
  if (t.dtype == "BF16") {
    std::memcpy(copy.data(), from, copy.size() * sizeof(Bf16));
    return copy.data();
  }
  std::vector<float> wide(copy.size());
  read_f32(t, begin, n, wide.data());
  std::transform(wide.begin(), wide.end(), copy.begin(), to_bf16);
  return copy.data();
}

// Refused now rather than ended by the system half way through.
void require_memory(const ModelConfig& config, kernels::WeightFormat format,
                    const std::string& source) {
  const std::uint64_t needed = packed_bytes(config, format);
  const std::uint64_t available = available_memory();
  if (available == 0 || needed <= available) return;
  throw LoadError(source + ": needs " + format_bytes(needed) + " of memory, expected at most the " +
                  format_bytes(available) + " available.");
}

class Loader {
 public:
  Loader(const ModelConfig& config, const Checkpoint& files, kernels::WeightFormat format,
         kernels::ThreadPool& pool, const LoadProgress& progress)
      : config_(config),
        files_(files),
        format_(format),
        pool_(pool),
        progress_(progress),
        specs_(tensor_list(config)) {
    const bool long_prefix =
        files.find(kTextPrefix + std::string("embed_tokens.weight")) != nullptr;
    prefix_ = long_prefix ? kTextPrefix : kShortPrefix;
  }

  std::shared_ptr<const Weights> run() {
    // Every mistake in the files is found before memory is taken and minutes are spent.
    for (const TensorSpec& spec : specs_) total_ += checked(spec).data.size();
    report_others();
    require_memory(config_, format_, files_.source());
    WeightsBuilder builder(config_, format_);
    read_into(builder);
    if (rounded_ > 0) {
      log(LogLevel::info, files_.source() + ": " + std::to_string(rounded_) +
                              " matrices stored as F32 or F16 were rounded to bf16.");
    }
    return builder.finish();
  }

  /// What hash_of would say of them.
  std::uint64_t hash() {
    for (const TensorSpec& spec : specs_) total_ += checked(spec).data.size();
    TensorHash hash;
    read_into(hash);
    return hash.value();
  }

 private:
  // All tensors, to a WeightsBuilder or what takes the same.
  template <class Taker>
  void read_into(Taker& taker) {
    for (const TensorSpec& spec : specs_) {
      const TensorView& t = *files_.find(file_name_of(spec, prefix_));
      if (spec.is_matrix()) {
        load_matrix(spec, t, taker);
      } else {
        std::vector<float> values(static_cast<std::size_t>(spec.elements()));
        read_f32(t, 0, spec.elements(), values.data());
        taker.add_vector(spec, values);
        advance(t.data.size());
      }
      files_.drop(t);
    }
  }

  const TensorView& checked(const TensorSpec& spec) const {
    const std::string name = file_name_of(spec, prefix_);
    const TensorView* t = files_.find(name);
    if (t == nullptr) {
      throw LoadError(files_.source() + ": tensor " + name + " is missing, expected shape " +
                      format_shape(spec.shape) + ".");
    }
    if (t->shape != spec.shape) {
      throw LoadError(files_.file_of(name) + ": tensor " + name + " has shape " +
                      format_shape(t->shape) + ", expected " + format_shape(spec.shape) +
                      " by config.json.");
    }
    if (t->dtype != "BF16" && t->dtype != "F32" && t->dtype != "F16") {
      throw LoadError(files_.file_of(name) + ": tensor " + name + " has dtype " + t->dtype +
                      ", expected BF16, F32 or F16.");
    }
    return *t;
  }

  template <class Taker>
  void load_matrix(const TensorSpec& spec, const TensorView& t, Taker& taker) {
    const std::int64_t columns = spec.columns();
    const std::int64_t step = std::max<std::int64_t>(1, kChunkElements / columns);
    const std::int64_t batch = step * 4 * pool_.threads();  // rows between two reports of progress
    if (t.dtype != "BF16") ++rounded_;
    for (std::int64_t first = 0; first < spec.rows(); first += batch) {
      const std::int64_t end = std::min(first + batch, spec.rows());
      pool_.run((end - first + step - 1) / step, [&](std::int64_t chunk) {
        const std::int64_t row = first + chunk * step;
        const std::int64_t rows = std::min(step, end - row);
        std::vector<Bf16> copy;
        const Bf16* const values = read_bf16(t, row * columns, rows * columns, copy);
        require_finite(spec, {values, static_cast<std::size_t>(rows * columns)});
        taker.add_rows(spec, row, rows, values);
      });
      advance(static_cast<std::uint64_t>((end - first) * columns) * dtype_size(t.dtype));
    }
  }

  // No scale of integers holds an infinity.
  void require_finite(const TensorSpec& spec, std::span<const Bf16> values) const {
    if (format_ == kernels::WeightFormat::bf16) return;
    constexpr std::uint16_t kExponent = 0x7f80;  // all ones: infinity or NaN
    const bool finite = std::all_of(values.begin(), values.end(),
                                    [](Bf16 v) { return (v.bits & kExponent) != kExponent; });
    if (finite) return;
    const std::string name = file_name_of(spec, prefix_);
    throw LoadError(files_.file_of(name) + ": tensor " + name +
                    " holds a value that is not finite, expected none for " +
                    kernels::to_string(format_) + " weights.");
  }

  void advance(std::uint64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

  // What is in the files and not ours: other towers are expected, anything else may be a mistake.
  void report_others() const {
    std::vector<std::string> used;
    for (const TensorSpec& spec : specs_) used.push_back(file_name_of(spec, prefix_));
    std::sort(used.begin(), used.end());
    std::size_t vision = 0;
    std::size_t mtp = 0;
    std::vector<std::string> unknown;
    for (const std::string_view full : files_.names()) {
      if (std::binary_search(used.begin(), used.end(), full)) continue;
      std::string_view name = full;
      if (name.starts_with(kShortPrefix)) name.remove_prefix(std::strlen(kShortPrefix));
      if (name.starts_with("visual.")) {
        ++vision;
      } else if (name.starts_with("mtp.")) {
        ++mtp;
      } else {
        unknown.emplace_back(full);
      }
    }
    if (vision + mtp > 0) {
      log(LogLevel::info, files_.source() + ": skipped " + std::to_string(vision) + " vision and " +
                              std::to_string(mtp) +
                              " draft (mtp) tensors, which the text path does not use.");
    }
    if (unknown.empty()) return;
    std::string list;
    for (std::size_t i = 0; i < std::min<std::size_t>(unknown.size(), 5); ++i) {
      list += (i == 0 ? "" : ", ") + unknown[i];
    }
    log(LogLevel::warning, files_.source() + ": ignored " + std::to_string(unknown.size()) +
                               " unknown tensors: " + list + (unknown.size() > 5 ? ", ..." : "") +
                               ".");
  }

  const ModelConfig& config_;
  const Checkpoint& files_;
  kernels::WeightFormat format_;
  kernels::ThreadPool& pool_;
  const LoadProgress& progress_;
  std::vector<TensorSpec> specs_;
  std::string prefix_;
  std::uint64_t total_ = 0;  // bytes
  std::uint64_t done_ = 0;
  int rounded_ = 0;
};

// A model directory on its way into memory.
class DirectoryLoader {
 public:
  DirectoryLoader(const std::string& directory, const LoadOptions& options)
      : directory_(directory), options_(options), key_{options.format, std::nullopt} {
    namespace fs = std::filesystem;
    const fs::path root(directory);
    std::error_code ignored;
    if (!fs::is_directory(root, ignored)) {
      throw LoadError(directory + ": expected a model directory.");
    }
    const std::string config_file = (root / "config.json").string();
    config_ = parse_model_config(read_text_file(config_file), config_file);
    const std::string generation_file = (root / "generation_config.json").string();
    if (fs::exists(generation_file, ignored)) {
      add_generation_config(read_text_file(generation_file), generation_file, config_);
    }
    if (!options.cache_file.empty()) key_.source = look_at_files(directory);
  }

  std::shared_ptr<const Weights> from_tensors() {
    const Checkpoint files = Checkpoint::open_directory(directory_);
    return Loader(config_, files, options_.format, pool_, options_.progress).run();
  }

  // Null when there is no file, or none that serves: `why` says what is wrong with it.
  std::shared_ptr<const Weights> from_cache(std::string& why) {
    const std::string& file = options_.cache_file;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return nullptr;
    require_memory(config_, options_.format, file);
    auto read = read_weights_file(file, config_, key_, pool_, options_.progress);
    if (!read.ok()) {
      why = read.error().message;
      return nullptr;
    }
    if (key_.source && !has_their_time()) {
      const Checkpoint files = Checkpoint::open_directory(directory_);
      if (Loader(config_, files, options_.format, pool_, options_.progress).hash() !=
          hash_of(**read)) {
        why = "its model's tensors are others";
        return nullptr;
      }
      if (take_their_time()) {
        log(LogLevel::info, file +
                                ": the model's files have another time of change; their tensors "
                                "are those it was made of.");
      }
    }
    return read.take();
  }

  /// The file that is to be written, with room for it.
  std::unique_ptr<NewFile> begin_file() const {
    auto file = std::make_unique<NewFile>(options_.cache_file);
    file->reserve(packed_bytes(config_, options_.format));
    return file;
  }

  std::uint64_t store(NewFile& file, const Weights& weights) {
    const std::uint64_t bytes =
        write_weights_file(file, weights, key_, pool_, options_.store_progress);
    take_their_time();
    return bytes;
  }

 private:
  // A cache file has the time of change of the newest file it was made of: as long as it has, those
  // are taken for unchanged.
  bool has_their_time() const {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(options_.cache_file, error);
    return !error && time == key_.source->newest;
  }
  // Where it cannot, as on what is read-only, each start has tensors to compare.
  bool take_their_time() const {
    if (!key_.source) return true;
    std::error_code error;
    if (hit_failpoint("model.time")) {
      error = std::make_error_code(std::errc::read_only_file_system);
    } else {
      std::filesystem::last_write_time(options_.cache_file, key_.source->newest, error);
    }
    if (!error && has_their_time()) return true;
    log(LogLevel::warning,
        options_.cache_file + ": cannot be given the time of change of the model's newest file (" +
            (error ? error.message() : "its file system keeps another") +
            "). Every start will read the whole model to compare them, until a copy that keeps "
            "times (cp -p) or touch -r gives it that time.");
    return false;
  }

  const std::string& directory_;
  const LoadOptions& options_;
  WeightsFileKey key_;
  ModelConfig config_;
  kernels::ThreadPool pool_{default_threads()};
};

}  // namespace

std::shared_ptr<const Weights> load_weights(const std::string& directory,
                                            const LoadOptions& options) {
  DirectoryLoader loader(directory, options);
  if (options.cache_file.empty() || options.format == kernels::WeightFormat::bf16) {
    return loader.from_tensors();
  }
  std::string why;
  if (auto cached = loader.from_cache(why)) return cached;
  const auto warn = [](const std::string& said) {
    log(LogLevel::warning, said + " The next start will quantise again.");
  };
  std::unique_ptr<NewFile> file;
  try {
    file = loader.begin_file();
    if (!why.empty()) log(LogLevel::info, options.cache_file + " is made anew: " + why);
  } catch (const LoadError& e) {
    const std::string no_use = why.empty() ? why : " What lies there is of no use: " + why + ".";
    if (options.cache_needed) throw LoadError(e.what() + no_use);
    warn(e.what() + no_use);
  }
  auto weights = loader.from_tensors();
  if (!file) return weights;
  try {
    const std::uint64_t bytes = loader.store(*file, *weights);
    log(LogLevel::info, options.cache_file + ": " + format_bytes(bytes) +
                            " of weights, to be read by the next start.");
  } catch (const LoadError& e) {
    warn(e.what());
  }
  return weights;
}

std::uint64_t write_weights_cache(const std::string& directory, const LoadOptions& options) {
  check(options.format != kernels::WeightFormat::bf16, "bf16 weights are read from their model");
  DirectoryLoader loader(directory, options);
  const auto file = loader.begin_file();
  if (!may_be_weights_file(options.cache_file)) {
    throw LoadError(options.cache_file + ": is a file of another kind, which is not replaced.");
  }
  return loader.store(*file, *loader.from_tensors());
}

std::string weights_cache_file(const std::string& directory, kernels::WeightFormat format,
                               const std::string& place) {
  namespace fs = std::filesystem;
  if (format == kernels::WeightFormat::bf16 || place == "off") return "";
  const std::string name = std::string(kernels::to_string(format)) + ".weights";
  if (place == "auto") return (fs::path(directory) / ("cairn-" + name)).string();
  // Models of one name may lie in many places.
  const fs::path path = fs::weakly_canonical(directory);
  Hash64 hash;
  hash.add(path.c_str(), path.native().size());
  const std::string file = path.filename().string() + "-" + hex_digits(hash.value()) + "-" + name;
  return (fs::path(place) / file).string();
}

std::shared_ptr<const Weights> load_weights(std::span<const MemoryFile> files,
                                            const LoadOptions& options) {
  const auto text = [&](std::string_view name) -> std::string_view {
    for (const MemoryFile& f : files) {
      if (std::filesystem::path(f.name).filename() == name) {
        return {reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size()};
      }
    }
    return {};
  };
  if (text("config.json").empty()) {
    throw LoadError("Embedded model: expected config.json among its files.");
  }
  ModelConfig config = parse_model_config(text("config.json"), "config.json");
  if (const std::string_view generation = text("generation_config.json"); !generation.empty()) {
    add_generation_config(generation, "generation_config.json", config);
  }
  kernels::ThreadPool pool(default_threads());
  return Loader(config, Checkpoint::from_memory(files), options.format, pool, options.progress)
      .run();
}

}  // namespace cairn::model
