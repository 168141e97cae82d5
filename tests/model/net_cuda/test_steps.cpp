// SPDX-License-Identifier: Apache-2.0
// What a step of the CUDA backend queues: launches, graphs, copies, waits and bytes.
#include <algorithm>
#include <cstring>

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
  constexpr std::int32_t kFrom = 510, kTokens = 515;
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < kTokens; ++i) ids.push_back(i * 13 % 59);
  DrivenSequence whole(device.backend, device.memory);
  const auto saved = whole.new_state();
  const std::vector<SavePoint> saves{{kFrom, saved.get()}};
  const StepSlice slice = whole.slice(ids, kFrom, saves);
  device.backend.step({&slice, 1});
  whole.advance();
  const std::vector<float> want = logits_of(device.backend);

  // The same arena and weights, but attention has room for two ranges only.
  CudaBackend turns(*random_weights(testing::small_shape(), 5), options, 1);
  for (Backend* backend : {static_cast<Backend*>(&device.backend), static_cast<Backend*>(&turns)}) {
    DrivenSequence again = DrivenSequence::resume(whole, kFrom, saved.get());
    DrivenSequence beside = device.prefilled(3);
    logits_of(device.backend);  // all of it has run before the arena changes hands
    if (backend == &turns) turns.use_arena(device.pieces->shared_arena());
    std::vector<float> got;
    for (std::int32_t i = kFrom; i < kTokens; ++i) {
      decode(*backend, {&beside, &again}, ids[static_cast<std::size_t>(i)]);
      const std::vector<float> both = logits_of(*backend);
      got.insert(got.end(), both.begin() + 64, both.end());
    }
    CHECK((got == want));
    CHECK((again.state_bytes() == whole.state_bytes()));
    CHECK((again.kv_bytes() == whole.kv_bytes()));
  }
}

TEST_CASE("a decode step is one copy up and one graph, waits once and allocates nothing") {
  Device device(testing::small_shape());
  DrivenSequence a = device.prefilled(5);
  DrivenSequence b = device.prefilled(20);
  for (int i = 0; i < 2; ++i) {  // until its graph is there
    decode(device.backend, {&a, &b}, 3);
    logits_of(device.backend);
  }
  const simt::DeviceCounts before = simt::device_counts();
  decode(device.backend, {&a, &b}, 3);
  const simt::DeviceCounts queued = simt::device_counts() - before;
  CHECK(queued == simt::DeviceCounts{.copies = 1, .graphs = 1});
  device.backend.read_logits();
  const simt::DeviceCounts all = simt::device_counts() - before;
  CHECK(all == simt::DeviceCounts{.host_waits = 1, .copies = 2, .graphs = 1});
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
  DrivenSequence sequence = device.prefilled(40);
  const simt::Counting counting(simt::Blocks::may_meet);
  decode(device.backend, {&sequence}, 3);
  logits_of(device.backend);
  const simt::Counters counted = counting.total();
  const double moved = 32.0 * static_cast<double>(counted.loads.sectors + counted.stores.sectors);
  const MemoryLayout layout = device.backend.layout();
  const double least = 2.0 * static_cast<double>(c.parameters()) +
                       2.0 * static_cast<double>(layout.state_bytes) +
                       41.0 * static_cast<double>(layout.kv_bytes_per_token());
  INFO(moved << " bytes moved, least " << least);
  CHECK(moved <= 1.1 * least);
  CHECK(counted.loads.efficiency() >= 0.9);
}
