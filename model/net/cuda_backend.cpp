// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_backend.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "kernels/cuda/device_errors.hpp"
#include "kernels/cuda/norm.hpp"
#include "model/net/memory_layout.hpp"
#include "model/net/step_check.hpp"

namespace cairn::model {
namespace {

namespace cuda = kernels::cuda;

// Left to graphs, the library and logits of long prompts when the arena takes the rest.
constexpr std::uint64_t kReserveBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kReserveShare = 16;  // at most this part of the device's memory

BatchLimits limits_of(const ModelConfig& c, const CudaOptions& options) {
  check(options.max_step_tokens >= 1 && options.max_slices >= 1 && options.context_length >= 0,
        "a CUDA backend has room for a row");
  return {options.max_step_tokens, std::min(options.max_slices, options.max_step_tokens),
          options.context_length > 0 ? options.context_length : c.max_position_embeddings,
          c.num_heads / c.num_kv_heads};
}

// A library reads and writes whole buckets of rows, also behind the last rows of the head.
std::int64_t padding_rows(const BatchLimits& limits, const CudaOptions& options) {
  return options.gemm == CudaGemm::cublaslt ? cuda::gemm_bucket(limits.slices) : 0;
}

WorkSizes sizes_of(const Weights& weights, const BatchLimits& limits, const CudaOptions& options,
                   std::int32_t usual_ranges) {
  const bool library = options.gemm == CudaGemm::cublaslt;
  const std::int32_t ranges = ranges_of(limits.context);
  WorkSizes sizes;
  sizes.batch = limits;
  sizes.rows = library ? cuda::gemm_bucket(limits.rows) + padding_rows(limits, options)
                       : std::int64_t{limits.rows};
  sizes.decode_parts =
      std::max<std::int64_t>(ranges, std::int64_t{limits.slices} * std::min(ranges, usual_ranges));
  for (const LayerWeights& layer : weights.layers) {
    sizes.wide = std::max({sizes.wide, layer.in.n(), library ? layer.gate_up.n() : 0});
  }
  return sizes;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw DeviceError("the CUDA kernels do not take this model: " + what);
}

void require_shape(const ModelConfig& c) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  require((c.head_dim == 256 && c.rotary_dim == 64) || (c.head_dim == 32 && c.rotary_dim == 8),
          "heads have " + number(c.head_dim) + " dims, " + number(c.rotary_dim) +
              " of them rotary, not 256 and 64 or 32 and 8");
  require(c.num_heads / c.num_kv_heads <= cuda::kDecodeTileRows,
          number(c.num_heads / c.num_kv_heads) + " query heads share a kv head, more than 16");
  require((c.linear_key_dim == 128 || c.linear_key_dim == 16) &&
              (c.linear_value_dim == 128 || c.linear_value_dim == 16),
          "recurrent heads have " + number(c.linear_key_dim) + " and " +
              number(c.linear_value_dim) + " dims, not 128 or 16");
  require(c.linear_value_heads % 2 == 0 && c.conv_kernel == 4,
          number(c.linear_value_heads) + " recurrent value heads and a convolution over " +
              number(c.conv_kernel) + " tokens, not an even number and 4");
  require(c.hidden_size % 8 == 0 && c.hidden_size <= cuda::kMaxNormWidth &&
              c.intermediate_size % 8 == 0 && c.vocab_size % 4 == 0,
          "hidden size " + number(c.hidden_size) + ", intermediate size " +
              number(c.intermediate_size) + ", vocabulary " + number(c.vocab_size) +
              ": not multiples of 8, 8 and 4, or too large");
}

std::size_t logits_bytes(std::int64_t rows, const ModelConfig& c) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(c.vocab_size) * sizeof(float);
}

// Refuses a model that cannot be held before anything of it moves.
std::unique_ptr<Upload> begin_upload(const Weights& weights, const WorkSizes& sizes,
                                     const CudaOptions& options,
                                     const cuda::DeviceDescription& device) {
  require_shape(weights.config);
  const std::size_t of_weights = DeviceWeights::bytes(weights, options.weights);
  const std::uint64_t needed =
      of_weights + DeviceWork::bytes(weights, sizes) +
      logits_bytes(sizes.batch.slices + padding_rows(sizes.batch, options), weights.config) +
      CudaSampling::bytes(sizes.batch.slices, weights.config.vocab_size);
  if (needed > device.memory_free) {
    throw DeviceError(
        cuda::text_of_full_device(device.index, "the model", needed, device.memory_free));
  }
  return std::make_unique<Upload>(device.index, of_weights);
}

}  // namespace

CudaBackend::CudaBackend(const Weights& weights, const CudaOptions& options,
                         const CudaInside& inside)
    : config_(weights.config),
      options_(options),
      device_(cuda::describe_device(options.device)),
      limits_(limits_of(config_, options)),
      sizes_(sizes_of(weights, limits_, options, inside.usual_ranges)),
      upload_(begin_upload(weights, sizes_, options, device_)),
      weights_(weights, options.weights, options.device, *upload_),
      work_(weights, sizes_, options.device, *upload_),
      library_(options.gemm == CudaGemm::cublaslt
                   ? inside.make_library(options.device, options.gemm_record)
                   : nullptr),
      forward_({config_, weights_, work_, library_.get(), !device_.multiplies_bf16(),
                sizes_.decode_parts, library_ ? limits_.slices : sizes_.rows}),
      batch_(limits_),
      staging_(options.device, StepBatch::most_bytes(limits_), "the tables of a step"),
      last_work_(std::make_shared<LastWork>(options.device)),
      stream_(options.device),
      sampling_(options.device, limits_.slices, config_.vocab_size, stream_) {
  upload_->finish();
  upload_ = nullptr;
  if (library_) choose_library();
  reserve_logits(limits_.slices);
}

CudaBackend::~CudaBackend() {
  try {
    stream_.finish();             // before the memory goes that it works on
  } catch (const DeviceError&) {  // nothing of it will run any more
  }
}

void CudaBackend::choose_library() {
  const auto prepare = [&](DeviceMatrix& m, bool bf16_out, std::int64_t rows) {
    m.by_library = !m.is_int8() && library_->prepare(m.bf16, m.n, m.k, bf16_out, rows);
  };
  for (DeviceLayer& layer : weights_.layers) {
    for (DeviceMatrix* m : {&layer.in, &layer.out, &layer.gate_up, &layer.down}) {
      prepare(*m, false, limits_.rows);
    }
  }
  prepare(weights_.head, false, limits_.slices);
}

MemoryLayout CudaBackend::layout() const { return memory_layout(config_, KvType::bf16); }

BackendInfo CudaBackend::info() const {
  BackendInfo info;
  info.device =
      cuda::device_name(device_.index) + " " + device_.name + " (" + device_.architecture() + ")";
  info.isa = device_.architecture();
  info.weights = options_.weights == CudaWeights::int8 ? "int8" : "bf16";
  info.kv = device_.multiplies_bf16() ? "bf16" : "f16";
  info.gemm = library_ ? "cublaslt " + library_->digest() : "exact";
  return info;
}

StepLogits CudaBackend::step(std::span<const StepSlice> slices) {
  check(slices.empty() || arena_ != nullptr, "step: blocks and states have no arena yet");
  StepLimits limits;
  limits.vocab = config_.vocab_size;
  limits.rows = limits_.rows;
  limits.slices = limits_.slices;
  limits.context = limits_.context;
  limits.kv_alignment = limits.state_alignment = kDeviceUnit;
  if (arena_) limits.memory = {arena_->data(), arena_->size()};
  check_step(slices, limits);
  logits_rows_ = static_cast<std::int32_t>(wanted_logits(slices));
  if (slices.empty()) return {nullptr, 0, config_.vocab_size};
  reserve_logits(logits_rows_);

  batch_.build(slices, arena_->data());
  const std::optional<GraphSize> size = graph_size();
  if (size) batch_.pad(size->slices, size->ranges);
  StagingAreas::Area& area = staging_.next();
  ForwardStep step;
  step.tables = batch_.write(area.memory.data(), work_.tables);
  step.arena = arena_->data();
  step.logits = logits_.as<float>();
  step.stream = stream_.get();
  stream_.copy_to_device(work_.tables, area.memory.data(), batch_.bytes());
  area.copied.record(stream_.get());
  if (size) {
    queue_as_graph(*size, step);
  } else {
    forward_.queue(step);
  }
  queued();
  return {nullptr, logits_rows_, config_.vocab_size};
}

std::optional<CudaBackend::GraphSize> CudaBackend::graph_size() const {
  if (!options_.graphs || !batch_.is_plain_decode()) return std::nullopt;
  const auto up_to = [](std::int32_t n, std::int32_t most) {
    return std::min(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(n))), most);
  };
  const GraphSize size{up_to(batch_.slices(), limits_.slices),
                       up_to(batch_.ranges(), ranges_of(limits_.context))};
  if (std::int64_t{size.slices} * size.ranges > sizes_.decode_parts) return std::nullopt;
  return size;
}

void CudaBackend::queue_as_graph(const GraphSize& size, const ForwardStep& step) {
  const auto [recorded, first_time] = graphs_.try_emplace(size);
  auto& [tables, graph] = recorded->second;
  if (first_time) {
    tables = step.tables;
    return forward_.queue(step);
  }
  check(tables == step.tables, "the tables of a recorded step have moved");
  if (!graph) graph = cuda::Graph(stream_, [&] { forward_.queue(step); });
  graph.launch(stream_);
}

void CudaBackend::reserve_logits(std::int64_t rows) {
  if (rows <= logits_capacity_) return;
  stream_.finish();
  graphs_.clear();  // they write to the old ones
  logits_ = {};     // first, so that old and new never stand side by side
  logits_capacity_ = 0;
  logits_ = cuda::DeviceBuffer(
      options_.device, logits_bytes(rows + padding_rows(limits_, options_), config_), "logits");
  logits_capacity_ = rows;
}

StepLogits CudaBackend::read_logits() {
  const std::size_t bytes = logits_bytes(logits_rows_, config_);
  if (bytes > host_logits_.size()) {
    host_logits_ = {};
    host_logits_ = cuda::PinnedBuffer(options_.device, bytes, "logits");
  }
  stream_.copy_to_host(host_logits_.data(), logits_.data(), bytes);
  stream_.finish();
  return {host_logits_.as<float>(), logits_rows_, config_.vocab_size};
}

bool CudaBackend::sample(std::span<const SampleRow> rows, std::int32_t vocab,
                         std::vector<SampledRow>& out) {
  for (const SampleRow& row : rows) {
    check(row.row >= 0 && row.row < logits_rows_, "sample: the last step has no such row");
  }
  sampling_.sample(rows, vocab, logits_.as<float>(), config_.vocab_size, out);
  return true;
}

std::shared_ptr<Arena> CudaBackend::make_arena(std::size_t bytes) {
  check(bytes / kDeviceUnit < std::size_t{1} << 31, "arena: more than tables can count");
  take_arena(std::make_shared<CudaArena>(options_.device, bytes, last_work_));
  return arena_;
}

void CudaBackend::use_arena(const std::shared_ptr<Arena>& arena) {
  auto ours = std::dynamic_pointer_cast<CudaArena>(arena);
  check(ours != nullptr && ours->device() == options_.device,
        "arena: made by a backend of another device");
  ours->follow(last_work_);
  take_arena(std::move(ours));
}

void CudaBackend::take_arena(std::shared_ptr<CudaArena> arena) {
  stream_.finish();
  graphs_.clear();  // they know the old one's address
  arena_ = std::move(arena);
}

std::uint64_t CudaBackend::free_bytes() const {
  const cuda::DeviceDescription now = cuda::describe_device(options_.device);
  const std::uint64_t reserve = std::min(kReserveBytes, now.memory_total / kReserveShare);
  return now.memory_free - std::min(reserve, now.memory_free);
}

Backend::HostSlotCopy CudaBackend::host_slot_copy() const {
  const auto slot = static_cast<std::size_t>(config_.head_dim) * sizeof(Bf16);
  const std::size_t heads = layout().kv_block_bytes / (slot * kBlockTokens);
  return [slot, heads](const std::byte* from, std::byte* to, std::int32_t tokens) {
    check(tokens >= 0 && tokens <= kBlockTokens, "copy_kv_slots: more slots than a block has");
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t at = head * slot * kBlockTokens;
      std::memcpy(to + at, from + at, slot * static_cast<std::size_t>(tokens));
    }
  };
}

void CudaBackend::check_place(const std::byte* place, std::size_t bytes) const {
  check(arena_ != nullptr && place >= arena_->data() &&
            place + bytes <= arena_->data() + arena_->size() &&
            (place - arena_->data()) % static_cast<std::ptrdiff_t>(kDeviceUnit) == 0,
        "a block or state lies outside the arena or between two places");
}

void CudaBackend::reset_state(std::byte* state) {
  check_place(state, layout().state_bytes);
  stream_.zero(state, layout().state_bytes);
  queued();
}

void CudaBackend::copy_state(const std::byte* from, std::byte* to) {
  check_place(from, layout().state_bytes);
  check_place(to, layout().state_bytes);
  stream_.copy_on_device(to, from, layout().state_bytes);
  queued();
}

void CudaBackend::copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) {
  check_place(from, layout().kv_block_bytes);
  check_place(to, layout().kv_block_bytes);
  check(tokens >= 0 && tokens <= kBlockTokens && from != to,
        "copy_kv_slots: more slots than a block has, or a block to itself");
  // The two are blocks 0 and 1 of a pool of their own, so that the copy's table never changes.
  const bool up = from < to;
  cuda::CopyKvSlotsArgs args;
  args.pool = arena_->data() + ((up ? from : to) - arena_->data());
  args.block_bytes = up ? to - from : from - to;
  args.layers = config_.full_layers();
  args.kv_heads = config_.num_kv_heads;
  args.slot_bytes = config_.head_dim * static_cast<std::int32_t>(sizeof(Bf16));
  args.copies = work_.slot_copies + (up ? 0 : kBlockTokens + 1) + tokens;
  args.copy_count = 1;
  cuda::copy_kv_slots(stream_.get(), args);
  queued();
}

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  for (const cuda::DeviceDescription& d : cuda::find_devices()) {
    devices.push_back({d.index, d.name, d.architecture()});
  }
  return devices;
}

std::unique_ptr<Backend> make_cuda_backend(const std::shared_ptr<const Weights>& weights,
                                           const CudaOptions& options) {
  check(weights != nullptr, "make_cuda_backend: no weights");
  check(weights->format == kernels::WeightFormat::bf16,
        "make_cuda_backend: weights that are integers already");
  return std::make_unique<CudaBackend>(*weights, options);
}

}  // namespace cairn::model
