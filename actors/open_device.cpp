// SPDX-License-Identifier: Apache-2.0
#include "actors/open_device.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include "actors/wrap_backend.hpp"
#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::actors {
namespace {

constexpr std::uint64_t kDefaultCacheCap = 8ULL << 30U;
constexpr const char* kCudaPrefix = "cuda:";
// A chunk of 512 rows leaves half of an H200 idle (docs/gpu.md).
constexpr BatchRoom kCpuRoom{.running = 16, .step_tokens = 512};
constexpr BatchRoom kCudaRoom{.running = 64, .step_tokens = 2048};

// Enough for one whole context beside the running state.
std::uint64_t least_cache_bytes(const model::MemoryLayout& layout, std::int32_t context_length) {
  return 2 * layout.state_bytes +
         static_cast<std::uint64_t>(engine::blocks_for(context_length) + 1) * layout.kv_block_bytes;
}

// Why these options are for the CPU, whatever devices there are; "" when they are not.
std::string cpu_only(const EngineOptions& options) {
  if (options.kv == "f32") return "keys and values of type f32 are for the CPU";
  if (options.activations == "fp32") return "activations of type fp32 are for the CPU";
  if (options.weights == "int4") return "int4 weights are for the CPU";
  return "";
}

}  // namespace

std::string gemm_record_beside(const std::string& disk_dir) {
  if (disk_dir.empty()) return "";
  std::filesystem::path dir = std::filesystem::absolute(disk_dir).lexically_normal();
  if (!dir.has_filename()) dir = dir.parent_path();
  return dir.string() + ".cublaslt";
}

std::uint64_t default_cache_bytes(const model::MemoryLayout& layout, std::int32_t context_length) {
  return std::max(std::min(kDefaultCacheCap, model::available_memory() / 4),
                  least_cache_bytes(layout, context_length));
}

std::uint64_t device_cache_bytes(std::uint64_t free_bytes, const model::MemoryLayout& layout,
                                 std::int32_t context_length) {
  const std::uint64_t least = std::min(free_bytes, least_cache_bytes(layout, context_length));
  return std::max(free_bytes / 10 * 9, least);
}

kernels::WeightFormat format_to_load(const EngineOptions& options) {
  const kernels::WeightFormat named =
      model::format_named(options.weights).value_or(kernels::WeightFormat::bf16);
  if (options.device == "cpu" || !cpu_only(options).empty()) return named;
  if (options.device != "auto") return kernels::WeightFormat::bf16;
  try {
    model::cuda_devices();
    return kernels::WeightFormat::bf16;
  } catch (const DeviceError&) {
    return named;
  }
}

BatchRoom batch_room(const EngineOptions& options, bool cuda) {
  const BatchRoom usual = cuda ? kCudaRoom : kCpuRoom;
  BatchRoom room{.running = options.max_running, .step_tokens = options.max_step_tokens};
  if (room.step_tokens == 0) room.step_tokens = std::max(usual.step_tokens, room.running);
  if (room.running == 0) room.running = std::min(usual.running, room.step_tokens);
  return room;
}

std::optional<int> cuda_index(const std::string& device) {
  const std::string prefix = kCudaPrefix;
  if (device.rfind(prefix, 0) != 0 || device.size() == prefix.size()) return std::nullopt;
  int index = -1;
  const char* end = device.data() + device.size();
  const auto [stop, error] = std::from_chars(device.data() + prefix.size(), end, index);
  if (error != std::errc() || stop != end || index < 0) return std::nullopt;
  return index;
}

DeviceOpener::DeviceOpener(const EngineOptions& options,
                           std::shared_ptr<const model::Weights> weights,
                           std::int32_t context_length)
    : options_(options), weights_(std::move(weights)), context_length_(context_length) {}

OpenDevice DeviceOpener::open() {
  if (options_.device == "cpu") return open_cpu();
  if (options_.device != "auto") {
    const auto index = cuda_index(options_.device);
    return index ? open_cuda(*index) : open_any_cuda();
  }
  std::string why = cpu_only(options_);
  if (why.empty()) {
    try {
      return open_any_cuda();
    } catch (const DeviceError& e) {
      why = e.what();
    }
  }
  require_cpu_options(why);
  log(LogLevel::info, "serving on the CPU: " + why);
  return open_cpu();
}

std::unique_ptr<model::Backend> DeviceOpener::open_again(
    const std::shared_ptr<model::Arena>& arena) const {
  std::unique_ptr<model::Backend> backend = cuda_ ? make_cuda(*cuda_) : make_cpu();
  if (arena) backend->use_arena(arena);
  return backend;
}

// What the first one says is what a user with one device is to hear.
OpenDevice DeviceOpener::open_any_cuda() {
  std::optional<std::string> problem;
  for (const model::CudaDevice& device : model::cuda_devices()) {
    try {
      return open_cuda(device.index);
    } catch (const DeviceError& e) {
      if (!problem) problem = e.what();
    }
  }
  throw DeviceError(problem.value_or("no CUDA device"));
}

OpenDevice DeviceOpener::open_cuda(int index) {
  OpenDevice open = with_memory(make_cuda(index));
  open.room = batch_room(options_, true);
  cuda_ = index;
  return open;
}

OpenDevice DeviceOpener::open_cpu() {
  OpenDevice open = with_memory(make_cpu());
  open.room = batch_room(options_, false);
  return open;
}

OpenDevice DeviceOpener::with_memory(std::unique_ptr<model::Backend> backend) const {
  OpenDevice open;
  const model::MemoryLayout layout = backend->layout();
  const std::string name = backend->info().device;
  std::uint64_t bytes = options_.cache_bytes;
  if (name == "cpu") {
    if (bytes == 0) bytes = default_cache_bytes(layout, context_length_);
  } else {
    const std::uint64_t free = backend->free_bytes();
    if (bytes == 0) bytes = device_cache_bytes(free, layout, context_length_);
    if (bytes > free) {
      throw DeviceError("cache_bytes: " + format_bytes(bytes) + " needed for the cache on " + name +
                        ", " + format_bytes(free) + " available beside the model");
    }
    open.arena = backend->make_arena(bytes);
  }
  open.pools = std::make_shared<engine::MemoryPools>(layout, bytes, open.arena,
                                                     options_.pages_ahead_bytes.value_or(bytes));
  open.backend = std::move(backend);
  return open;
}

std::unique_ptr<model::Backend> DeviceOpener::make_cuda(int index) const {
  model::CudaOptions cuda;
  cuda.device = index;
  cuda.weights = options_.weights == "int8" ? model::CudaWeights::int8 : model::CudaWeights::bf16;
  cuda.gemm = options_.gemm == "cublaslt" ? model::CudaGemm::cublaslt : model::CudaGemm::exact;
  cuda.gemm_record =
      options_.gemm_record.empty() ? gemm_record_beside(options_.disk_dir) : options_.gemm_record;
  const BatchRoom room = batch_room(options_, true);
  cuda.max_step_tokens = room.step_tokens;
  cuda.max_slices = room.running;
  cuda.context_length = context_length_;
  return wrapped(model::make_cuda_backend(weights_, cuda));
}

std::unique_ptr<model::Backend> DeviceOpener::make_cpu() const {
  model::CpuOptions cpu;
  cpu.threads = options_.threads;
  cpu.isa = options_.isa;
  cpu.kv = options_.kv == "f32" ? model::KvType::f32 : model::KvType::bf16;
  cpu.activations =
      kernels::activations_named(options_.activations).value_or(kernels::Activations::bf16);
  cpu.max_step_tokens = batch_room(options_, false).step_tokens;
  return wrapped(model::make_cpu_backend(weights_, cpu));
}

void DeviceOpener::require_cpu_options(const std::string& why) const {
  if (options_.weights != kernels::to_string(model::format_of(*weights_))) {
    throw LoadError("weights: " + options_.weights +
                    " were to be made on a CUDA device, and none could be used; the device must be "
                    "cpu for them to be made here: " +
                    why);
  }
  if (options_.gemm != "exact") {
    throw LoadError("gemm: " + options_.gemm + " needs a CUDA device: " + why);
  }
}

}  // namespace cairn::actors
