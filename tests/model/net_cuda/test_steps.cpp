// SPDX-License-Identifier: Apache-2.0
// What a step of the CUDA backend queues: launches, graphs, copies, waits and bytes.
#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "model/net/cuda_backend.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net_cuda/device_memory.hpp"
#include "tests/model/net_cuda/small_model.hpp"
#include "tests/simt/harness/counters.hpp"
#include "tests/simt/harness/device.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::testing::DrivenSequence;

namespace {

/// A backend with an arena and the sequences that a test drives.
struct Device {
  explicit Device(const ModelConfig& config, const CudaOptions& options = {},
                  std::size_t arena_bytes = std::size_t{2} << 20)
      : backend(*random_weights(config, 5), options),
        pieces(std::make_shared<testing::ArenaMemory>(arena_bytes)) {
    pieces->serve(backend);
    memory = pieces->interface();
  }

  DrivenSequence prefilled(std::int32_t tokens) {
    DrivenSequence sequence(backend, memory);
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < tokens; ++i) ids.push_back((7 * i + tokens) % 61);
    sequence.run(ids);
    return sequence;
  }

  CudaBackend backend;
  std::shared_ptr<testing::ArenaMemory> pieces;
  testing::DeviceMemory memory;
};

/// A sequence whose first tokens were never computed: their keys and values are made up, the same
/// for all, and the state is that of no tokens.
class LateSequence {
 public:
  LateSequence(Device& device, std::int32_t position)
      : device_(device), state_(device.memory.allocate(device.backend.layout().state_bytes)) {
    std::vector<Bf16> values(device.backend.layout().kv_block_bytes / sizeof(Bf16));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = to_bf16(static_cast<float>(i % 97) / 50.0F - 1.0F);
    }
    for (std::int32_t begin = 0; begin < position + 16; begin += kBlockTokens) {
      blocks_.push_back(device.memory.allocate(device.backend.layout().kv_block_bytes));
      device.memory.write(values.data(), blocks_.back().get(), values.size() * sizeof(Bf16));
      table_.push_back(blocks_.back().get());
    }
    device.backend.reset_state(state_.get());
    device.backend.read_logits();  // the state is reset
  }

  /// With everyone's logits.
  StepSlice slice(std::int32_t position, std::span<const std::int32_t> tokens) const {
    return {tokens, position, table_, state_.get(), {}, 0};
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(device_.backend.layout().state_bytes);
    device_.memory.read(state_.get(), all.data(), all.size());
    std::vector<std::byte> block(device_.backend.layout().kv_block_bytes);
    for (std::byte* place : table_) {
      device_.memory.read(place, block.data(), block.size());
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }

 private:
  Device& device_;
  std::shared_ptr<std::byte> state_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::vector<std::byte*> table_;
};

/// One token for each sequence in one step, on any backend that shares their arena.
void decode(Backend& backend, const std::vector<DrivenSequence*>& sequences, std::int32_t token) {
  std::vector<StepSlice> slices;
  for (DrivenSequence* s : sequences) slices.push_back(s->slice({&token, 1}, 0));
  backend.step(slices);
  for (DrivenSequence* s : sequences) s->advance();
}

std::vector<float> logits_of(Backend& backend) {
  const StepLogits got = backend.read_logits();
  return {got.data, got.data + static_cast<std::ptrdiff_t>(got.rows) * got.vocab};
}

CudaOptions without_graphs() {
  CudaOptions options;
  options.graphs = false;
  return options;
}

}  // namespace

TEST_CASE("decode steps have the same bits with graphs and without, in batches of every size") {
  CudaOptions graphs;
  graphs.max_slices = 5;
  CudaOptions none = graphs;
  none.graphs = false;
  Device with(testing::small_shape(), graphs);
  Device without(testing::small_shape(), none);
  const auto run = [](Device& device) {
    std::vector<DrivenSequence> all;
    for (const std::int32_t tokens : {1, 15, 16, 3, 7}) all.push_back(device.prefilled(tokens));
    std::vector<std::vector<float>> logits;
    for (const std::size_t count : {1, 3, 3, 5, 5, 2, 1, 3, 5, 4}) {
      std::vector<DrivenSequence*> batch;
      for (std::size_t i = 0; i < count; ++i) batch.push_back(&all[all.size() - 1 - i]);
      decode(device.backend, batch, 11);
      logits.push_back(logits_of(device.backend));
    }
    std::vector<std::vector<std::byte>> memory;
    for (const DrivenSequence& s : all) {
      memory.push_back(s.state_bytes());
      memory.push_back(s.kv_bytes());
    }
    return std::pair(logits, memory);
  };
  const simt::DeviceCounts before = simt::device_counts();
  const auto got = run(with);
  // Of the sizes 1, 2, 4 and 5 all but the first steps were replayed.
  CHECK((simt::device_counts() - before).graphs == 6);
  CHECK((got == run(without)));
}

TEST_CASE("a context that grows into its second range decodes to the bits of its prefill") {
  CudaOptions options;
  options.max_slices = 2;
  Device device(testing::small_shape(), options);
  const std::vector<std::int32_t> ids{5, 9, 2, 40, 33, 21, 8};
  const LateSequence whole(device, 509);
  const StepSlice slice = whole.slice(509, ids);
  device.backend.step({&slice, 1});
  const std::vector<float> want = logits_of(device.backend);

  // The same arena and weights, but attention has room for two ranges only.
  CudaBackend turns(*random_weights(testing::small_shape(), 5), options, {.usual_ranges = 1});
  for (Backend* backend : {static_cast<Backend*>(&device.backend), static_cast<Backend*>(&turns)}) {
    const LateSequence again(device, 509);
    const LateSequence beside(device, 3);
    std::vector<float> got;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(ids.size()); ++i) {
      const auto token = std::span(ids).subspan(static_cast<std::size_t>(i), 1);
      const StepSlice both[] = {beside.slice(3 + i, token), again.slice(509 + i, token)};
      if (backend == &turns) turns.use_arena(device.pieces->shared_arena());
      backend->step(both);
      const std::vector<float> rows = logits_of(*backend);
      got.insert(got.end(), rows.begin() + 64, rows.end());
    }
    CHECK((got == want));
    CHECK((again.bytes() == whole.bytes()));
  }
}

TEST_CASE("a decode step is one copy up and one graph, and waits once, for its tokens") {
  Device device(testing::small_shape());
  DrivenSequence a = device.prefilled(5);
  DrivenSequence b = device.prefilled(20);
  SamplingParams greedy;
  greedy.temperature = 0;
  const std::vector<SampleRow> rows{{0, &greedy}, {1, &greedy}};
  std::vector<SampledRow> sampled;
  for (int i = 0; i < 2; ++i) {  // until its graph is there
    decode(device.backend, {&a, &b}, 3);
    device.backend.sample(rows, 64, sampled);
  }
  const simt::DeviceCounts before = simt::device_counts();
  decode(device.backend, {&a, &b}, 3);
  CHECK(simt::device_counts() - before == simt::DeviceCounts{.copies = 1, .graphs = 1});
  device.backend.sample(rows, 64, sampled);
  const simt::DeviceCounts all = simt::device_counts() - before;
  CHECK(all == simt::DeviceCounts{.host_waits = 1, .launches = 1, .copies = 3, .graphs = 1});
}

TEST_CASE("rows of a step are sampled on the device as the host would, however many they are") {
  CudaOptions options;
  options.max_slices = 3;  // sampled that many at a time
  Device device(testing::small_shape(), options);
  DrivenSequence sequence(device.backend, device.memory);
  const std::vector<std::int32_t> tokens{5, 9, 2, 40, 33};
  const StepSlice slice = sequence.slice(tokens, 1);
  device.backend.step({&slice, 1});
  sequence.advance();
  std::vector<SamplingParams> params(4);
  params[0].temperature = 0;
  params[1].seed = 7;
  params[2].top_k = 5;
  params[2].top_p = 0.8F;
  params[3].repetition_penalty = 3;
  params[3].logit_bias = {{17, 2.0F}};
  TokenHistory history;
  history.add_prompt(tokens);
  // Enough that the tables have to grow.
  params[3].logit_bias.resize(9000, {17, 0.0F});
  std::vector<SampleRow> rows;
  for (std::int32_t row = 3; row >= 0; --row) {
    for (const SamplingParams& p : params) rows.push_back({row, &p, &history, 1, 77});
  }
  std::vector<SampledRow> got;
  REQUIRE(device.backend.sample(rows, 61, got));
  const StepLogits logits = device.backend.read_logits();
  Sampler sampler(61);
  REQUIRE(got.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int32_t want =
        sampler.sample(logits.row(rows[i].row), *rows[i].params, &history, 1, 77);
    CHECK(got[i].token == want);
    CHECK(got[i].finite);
  }
  const std::vector<SampleRow> beyond{{4, &params[0]}};
  CHECK_THROWS_AS(device.backend.sample(beyond, 61, got), InvariantError);
}

TEST_CASE("a step is over when sample returns, also without rows") {
  Device device(testing::small_shape());
  DrivenSequence sequence = device.prefilled(5);
  const std::vector<std::int32_t> tokens{1, 2};
  const StepSlice slice = sequence.slice(tokens);
  device.backend.step({&slice, 1});
  std::vector<SampledRow> none;
  const simt::DeviceCounts before = simt::device_counts();
  CHECK(device.backend.sample({}, 64, none));
  CHECK(simt::device_counts() - before == simt::DeviceCounts{.host_waits = 1});
}

TEST_CASE("a step whose logits nobody reads leaves the same state and keys, with fewer launches") {
  for (const bool attention_first : {false, true}) {
    Device device(testing::small_shape(attention_first), without_graphs());
    const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5};
    const auto run = [&](std::int32_t logits_from) {
      DrivenSequence sequence(device.backend, device.memory);
      const StepSlice slice = sequence.slice(tokens, logits_from);
      const simt::DeviceCounts before = simt::device_counts();
      device.backend.step({&slice, 1});
      const std::int64_t launches = (simt::device_counts() - before).launches;
      sequence.advance();
      return std::tuple(sequence.state_bytes(), sequence.kv_bytes(), launches);
    };
    const auto [state, kv, launches] = run(4);
    const auto [unread_state, unread_kv, unread_launches] = run(-1);
    CHECK((unread_state == state));
    CHECK((unread_kv == kv));
    // Of the last layer: norm, projection, then rotation, or convolution and recurrence.
    CHECK(unread_launches == 1 + (attention_first ? 8 + 4 : 9 + 3));
    CHECK(launches == 3 + 9 + 8);  // a prompt's attention is one launch
  }
}

TEST_CASE("a library's GEMM has room for the whole buckets that it reads and writes") {
  // Stands for a library whose rows keep their bits: our own kernel, on every row of the bucket.
  class Library final : public kernels::cuda::LtGemm {
   public:
    bool prepare(kernels::cuda::Bf16Weight, std::int64_t n, std::int64_t, bool bf16_out,
                 std::int64_t max_rows) override {
      CHECK(!bf16_out);
      const bool takes = n != 32;  // output projections and down are left to us
      if (takes) most_[n] = max_rows;
      return takes;
    }
    bool run(kernels::cuda::Stream stream,
             const kernels::cuda::GemmArgs<kernels::cuda::Bf16Weight, float>& args) override {
      CHECK(args.rows <= most_.at(args.n));
      auto bucket = args;
      bucket.rows = kernels::cuda::gemm_bucket(args.rows);
      kernels::cuda::gemm(stream, bucket);
      ++runs_;
      return true;
    }
    bool run(kernels::cuda::Stream,
             const kernels::cuda::GemmArgs<kernels::cuda::Bf16Weight, Bf16>&) override {
      return false;
    }
    int rejected() const override { return 0; }
    std::string digest() const override { return "of a test"; }
    int runs() const { return runs_; }

   private:
    std::map<std::int64_t, std::int64_t> most_;  // rows, by n
    int runs_ = 0;
  };
  CudaOptions options;
  options.max_slices = 2;
  options.max_step_tokens = 20;
  ModelConfig c = testing::small_shape();
  c.vocab_size = c.sampled_vocab = 128;  // no other weight has so many rows
  const auto weights = random_weights(c, 5);
  const auto run = [&](CudaBackend& backend) {
    const auto pieces = std::make_shared<testing::ArenaMemory>(std::size_t{1} << 20);
    pieces->serve(backend);
    const testing::DeviceMemory memory = pieces->interface();
    DrivenSequence sequence(backend, memory);
    std::vector<std::int32_t> tokens(19);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(3 * i);
    std::vector<std::vector<float>> logits{sequence.run(tokens)};
    for (int i = 0; i < 3; ++i) {
      decode(backend, {&sequence}, 3);
      logits.push_back(logits_of(backend));
    }
    return logits;
  };
  CudaBackend ours(*weights, options);
  const auto want = run(ours);
  options.gemm = CudaGemm::cublaslt;
  Library* library = nullptr;
  CudaBackend theirs(*weights, options, {.make_library = [&](int, const std::string&) {
    auto made = std::make_unique<Library>();
    library = made.get();
    return made;
  }});
  CHECK((run(theirs) == want));
  CHECK(theirs.info().gemm == "cublaslt of a test");
  CHECK(library->runs() > 20);
}

TEST_CASE("a step launches nine kernels a layer while every slice has one row, ten when mixed") {
  Device device(testing::small_shape(), without_graphs());
  DrivenSequence a = device.prefilled(5);
  DrivenSequence b = device.prefilled(20);
  const auto counted = [&](const std::vector<std::int32_t>& second) {
    const std::vector<std::int32_t> one{4};
    const StepSlice slices[] = {a.slice(one, 0), b.slice(second, 0)};
    const simt::DeviceCounts before = simt::device_counts();
    device.backend.step(slices);
    const simt::DeviceCounts counts = simt::device_counts() - before;
    a.advance();
    b.advance();
    logits_of(device.backend);
    CHECK(counts.allocations == 0);
    CHECK(counts.host_waits == 0);
    CHECK(counts.copies == 1);
    return counts.launches;
  };
  // Beside the layers: embedding, last norm and head.
  CHECK(counted({5}) == 3 + 9 * 2);
  CHECK(counted({5, 6, 7}) == 3 + 9 * 2 + 1);
}

TEST_CASE("a whole decode step moves little more than weights, state and keys") {
  // Of the demo's shape; a head of 1,024 and fewer layers keep the harness short.
  ModelConfig c = shape_by_name("demo");
  c.vocab_size = c.sampled_vocab = 1024;
  c.num_layers = 2;
  c.layers = {LayerKind::linear_attention, LayerKind::full_attention};
  const auto weights = random_weights(c, 5);
  Device device(c, without_graphs(), std::size_t{4} << 20);
  DrivenSequence sequence = device.prefilled(8);
  const simt::Counting counting(simt::Blocks::may_meet);
  decode(device.backend, {&sequence}, 3);
  logits_of(device.backend);
  const simt::Counters counted = counting.total();
  const double moved = 32.0 * static_cast<double>(counted.loads.sectors + counted.stores.sectors);
  const MemoryLayout layout = device.backend.layout();
  const double least = 2.0 * static_cast<double>(c.parameters()) +
                       2.0 * static_cast<double>(layout.state_bytes) +
                       9.0 * static_cast<double>(layout.kv_bytes_per_token());
  INFO(moved << " bytes moved, least " << least);
  CHECK(moved <= 1.1 * least);
  CHECK(counted.loads.efficiency() >= 0.9);
}
