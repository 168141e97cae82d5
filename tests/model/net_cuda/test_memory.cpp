// SPDX-License-Identifier: Apache-2.0
// Weights, blocks and states on the device: what arrives, in which order, and what is refused.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "model/net/cuda_backend.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net_cuda/device_memory.hpp"
#include "tests/model/net_cuda/small_model.hpp"
#include "tests/simt/harness/device.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::testing::DrivenSequence;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::unique_ptr<Backend> small_backend(const CudaOptions& options = {}) {
  return make_cuda_backend(random_weights(testing::small_shape(), 5), options);
}

Bytes read(Arena& arena, const std::byte* from, std::size_t bytes) {
  Bytes out(bytes);
  arena.read(from, out);
  return out;
}

// Element (i, j) of a packed matrix.
float value(const kernels::PackedMatrix& m, std::int64_t i, std::int64_t j) {
  using kernels::kPanelColumns;
  return to_float(m.panel(i / kPanelColumns)[kernels::PackedMatrix::place(j, i % kPanelColumns)]);
}

template <class T>
std::vector<T> from_device(const T* data, std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
  const kernels::cuda::PinnedBuffer pinned(0, bytes, "a test");
  kernels::cuda::WorkStream stream(0);
  stream.copy_to_host(pinned.data(), reinterpret_cast<const std::byte*>(data), bytes);
  stream.finish();
  return {pinned.as<T>(), pinned.as<T>() + count};
}

void check_matrix(const DeviceMatrix& got, const kernels::PackedMatrix& want, CudaWeights type) {
  REQUIRE(got.n == want.n());
  REQUIRE(got.k == want.k());
  REQUIRE(got.is_int8() == (type == CudaWeights::int8));
  const std::int64_t count = got.n * got.k;
  const auto q = got.is_int8() ? from_device(got.int8.q, count) : std::vector<std::int8_t>();
  const auto scales = got.is_int8() ? from_device(got.int8.scales, got.n) : std::vector<Bf16>();
  const auto rows = got.is_int8() ? std::vector<Bf16>() : from_device(got.bf16.w, count);
  bool same = true;
  for (std::int64_t i = 0; i < got.n; ++i) {
    for (std::int64_t j = 0; j < got.k; ++j) {
      if (!got.is_int8()) {
        same &= to_float(rows[static_cast<std::size_t>(i * got.k + j)]) == value(want, i, j);
        continue;
      }
      const std::int64_t at = i * got.k + j / 16 * 16 + kernels::cuda::int8_slot(j % 16);
      const float scale = to_float(scales[static_cast<std::size_t>(i)]);
      const float x = static_cast<float>(q[static_cast<std::size_t>(at)]) * scale;
      same &= std::abs(x - value(want, i, j)) <= 0.51F * scale;  // the scale is rounded, too
    }
  }
  CHECK(same);
}

}  // namespace

TEST_CASE("weights arrive row by row as the file has them, in bf16 or rounded to 8 bits") {
  ModelConfig c = testing::small_shape();
  c.intermediate_size = 48;
  c.vocab_size = c.sampled_vocab = 400;
  c.tie_word_embeddings = false;
  const auto weights = random_weights(c, 3);
  for (const CudaWeights type : {CudaWeights::bf16, CudaWeights::int8}) {
    Upload upload(0, 8192);  // the head takes four sends
    const DeviceWeights device(*weights, type, 0, upload);
    upload.finish();
    // Its 100 rows are no multiple of 8.
    check_matrix(device.layers[0].in, weights->layers[0].in, CudaWeights::bf16);
    check_matrix(device.layers[1].gate_up, weights->layers[1].gate_up, type);
    check_matrix(device.head, weights->head, CudaWeights::bf16);
    DeviceMatrix table;
    table.n = 400;
    table.k = 32;
    table.bf16.w = device.embedding;
    check_matrix(table, weights->embedding, CudaWeights::bf16);
    CHECK(from_device(device.layers[0].conv, 4 * 64) == weights->layers[0].conv);
    CHECK(from_device(device.final_norm, 32) == weights->final_norm);
  }
}

TEST_CASE("the arena copies any bytes through its areas, behind what the backend has queued") {
  const auto backend = small_backend();
  const std::size_t size = (std::size_t{13} << 20) + 512;  // more than three areas
  const auto arena = backend->make_arena(size);
  REQUIRE(arena->size() == size);
  REQUIRE(reinterpret_cast<std::uintptr_t>(arena->data()) % 256 == 0);
  const Bytes all = random_bytes(size, 1);
  arena->write(all, arena->data());
  CHECK((read(*arena, arena->data(), size) == all));
  const Bytes part = random_bytes(std::size_t{9} << 20, 2);
  arena->write(part, arena->data() + 257);
  CHECK((read(*arena, arena->data() + 257, part.size()) == part));
  CHECK((read(*arena, arena->data(), 257) == Bytes(all.begin(), all.begin() + 257)));

  const std::size_t state = backend->layout().state_bytes;
  std::byte* const second = arena->data() + (state + 255) / 256 * 256;
  backend->copy_state(arena->data(), second);
  CHECK((read(*arena, second, state) == read(*arena, arena->data(), state)));
  backend->reset_state(second);
  CHECK((read(*arena, second, state) == Bytes(state)));

  Bytes one(1);
  CHECK_THROWS_AS(arena->read(arena->data() + size, one), InvariantError);
  CHECK_THROWS_AS(arena->write(one, arena->data() - 1), InvariantError);
}

TEST_CASE(
    "memory that an arena gives is copied to and from at once, and stays when the arena goes") {
  const auto backend = small_backend();
  const std::size_t size = std::size_t{9} << 20;  // more than two areas
  auto arena = backend->make_arena(size);
  const std::shared_ptr<std::byte> host = arena->host_memory(size);
  const Bytes all = random_bytes(size, 3);
  std::copy(all.begin(), all.end(), host.get());
  const auto before = simt::device_counts();
  arena->write({host.get(), size}, arena->data());
  std::fill_n(host.get(), size, std::byte{0});
  arena->read(arena->data() + 16, {host.get() + 16, size - 16});
  CHECK(simt::device_counts().copies - before.copies == 2);
  CHECK(std::equal(all.begin() + 16, all.end(), host.get() + 16));
  // One byte more than the memory has goes through the areas.
  Bytes other(size);
  arena->read(arena->data(), other);
  CHECK((other == all));
  arena = nullptr;
  CHECK(host.get()[16] == all[16]);
}

TEST_CASE("slots of a block are copied on the device and on host copies alike") {
  const auto backend = small_backend();
  const std::size_t size = backend->layout().kv_block_bytes;
  const auto arena = backend->make_arena(4 * size);
  std::byte* const low = arena->data();
  std::byte* const high = arena->data() + 3 * size;
  const Backend::HostSlotCopy on_host = backend->host_slot_copy();
  for (const std::int32_t tokens : {0, 1, 7, 16}) {
    for (const bool up : {true, false}) {
      const Bytes from = random_bytes(size, 3);
      Bytes to = random_bytes(size, 4);
      arena->write(from, up ? low : high);
      arena->write(to, up ? high : low);
      backend->copy_kv_slots(up ? low : high, up ? high : low, tokens);
      on_host(from.data(), to.data(), tokens);
      CHECK((read(*arena, up ? high : low, size) == to));
      CHECK((read(*arena, up ? low : high, size) == from));
    }
  }
  CHECK_THROWS_AS(backend->copy_kv_slots(low, high, 17), InvariantError);
  CHECK_THROWS_AS(backend->copy_kv_slots(low, low, 3), InvariantError);
}

TEST_CASE("steps that nobody waits for keep the tables they were given") {
  const auto run = [](bool wait) {
    const auto backend = small_backend();
    const auto pieces = std::make_shared<testing::ArenaMemory>(std::size_t{1} << 20);
    pieces->serve(*backend);
    const testing::DeviceMemory memory = pieces->interface();
    DrivenSequence sequence(*backend, memory);
    for (std::int32_t token = 1; token < 6; ++token) {
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(token), token);
      const StepSlice slice = sequence.slice(tokens);
      backend->step({&slice, 1});
      sequence.advance();
      if (wait) backend->read_logits();
    }
    return std::pair(sequence.state_bytes(), sequence.kv_bytes());
  };
  CHECK((run(false) == run(true)));
}

TEST_CASE("an arena outlives its backend and serves the next one") {
  auto backend = small_backend();
  const auto arena = backend->make_arena(std::size_t{1} << 20);
  const Bytes bytes = random_bytes(1000, 5);
  arena->write(bytes, arena->data());
  backend->reset_state(arena->data() + 1024);
  backend = nullptr;
  CHECK((read(*arena, arena->data(), 1000) == bytes));
  backend = small_backend();
  CHECK_THROWS_AS(backend->reset_state(arena->data()), InvariantError);
  backend->use_arena(arena);
  backend->reset_state(arena->data());
  CHECK((read(*arena, arena->data(), 1000) == Bytes(1000)));
}

TEST_CASE("a malformed step is refused before anything is queued") {
  CudaOptions options;
  options.max_step_tokens = 8;
  options.max_slices = 2;
  options.context_length = 40;
  const auto backend = small_backend(options);
  const std::vector<std::int32_t> tokens{1, 2, 3};
  std::vector<std::byte*> blocks;
  StepSlice slice{tokens, 0, blocks, nullptr, {}, 0};
  CHECK_THROWS_AS(backend->step({&slice, 1}), InvariantError);  // there is no arena yet
  const auto arena = backend->make_arena(std::size_t{1} << 18);
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(arena->data() +
                     static_cast<std::size_t>(i) * backend->layout().kv_block_bytes);
  }
  slice.kv_blocks = blocks;
  slice.state = arena->data() + (std::size_t{1} << 17);
  const simt::DeviceCounts before = simt::device_counts();
  const auto refused = [&](auto&& spoil) {
    StepSlice other = slice;
    spoil(other);
    CHECK_THROWS_AS(backend->step({&other, 1}), InvariantError);
  };
  std::vector<std::byte*> misplaced = blocks;
  misplaced[0] += 64;
  std::vector<std::byte*> outside = blocks;
  outside[0] = arena->data() + arena->size();
  const std::vector<SavePoint> save{{3, arena->data() - 256}};
  refused([](StepSlice& s) { s.position = 38; });  // to position 41
  refused([&](StepSlice& s) { s.kv_blocks = misplaced; });
  refused([&](StepSlice& s) { s.kv_blocks = outside; });
  refused([](StepSlice& s) { s.state += 64; });
  refused([&](StepSlice& s) { s.saves = save; });
  refused([](StepSlice& s) { s.logits_from = 3; });
  const std::vector<StepSlice> three(3, slice);
  CHECK_THROWS_AS(backend->step(three), InvariantError);
  CHECK(simt::device_counts() - before == simt::DeviceCounts{});
  CHECK(backend->step({}).rows == 0);
}

TEST_CASE("a model that does not fit is refused with the bytes, before anything is allocated") {
  const simt::WithDevices small({.memory = 300000});
  const simt::DeviceCounts before = simt::device_counts();
  CHECK_THROWS_WITH(small_backend(), Catch::Contains("cuda:0 has not the memory for the model: ") &&
                                         Catch::Contains("needed, 292.97 KiB free"));
  CHECK(simt::device_counts() - before == simt::DeviceCounts{});
}

TEST_CASE("an arena that does not fit is refused; what is free leaves a reserve") {
  const simt::WithDevices devices({.memory = std::uint64_t{64} << 20});
  const auto backend = small_backend();
  const std::uint64_t free = backend->free_bytes();
  CHECK(free < (std::uint64_t{60} << 20));
  CHECK(free > (std::uint64_t{20} << 20));
  CHECK_THROWS_WITH(
      backend->make_arena(std::size_t{64} << 20),
      Catch::Contains("cuda:0 has not the memory for blocks and states: 64.00 MiB needed"));
  const auto arena = backend->make_arena(free);
  CHECK(backend->free_bytes() == 0);
}

TEST_CASE("a model of other dimensions, and a device that is not there, are refused by name") {
  ModelConfig c = testing::small_shape();
  c.linear_key_dim = c.linear_value_dim = 32;
  CHECK_THROWS_WITH(make_cuda_backend(random_weights(c, 5), {}),
                    Catch::Contains("recurrent heads have 32 and 32 dims"));
  CudaOptions other;
  other.device = 3;
  CHECK_THROWS_WITH(small_backend(other), Catch::Contains("there is no cuda:3"));
}

TEST_CASE("a lost device ends steps with DeviceLost, and the backend can still be taken down") {
  const simt::WithDevices devices({});
  for (const std::int64_t operations : {0, 1, 2, 9}) {
    INFO("lost after " << operations << " operations");
    const simt::WithDevices again({});
    const auto backend = small_backend();
    const auto pieces = std::make_shared<testing::ArenaMemory>(std::size_t{1} << 20);
    pieces->serve(*backend);
    const testing::DeviceMemory memory = pieces->interface();
    DrivenSequence sequence(*backend, memory);
    const std::vector<std::int32_t> tokens{1, 2, 3};
    const StepSlice slice = sequence.slice(tokens, 2);
    simt::lose_device(operations);
    CHECK_THROWS_AS(backend->step({&slice, 1}), DeviceLost);
    CHECK_THROWS_AS(backend->read_logits(), DeviceLost);
    Bytes state(16);
    CHECK_THROWS_AS(pieces->arena().read(sequence.state(), state), DeviceLost);
  }
}

TEST_CASE("a backend says what it runs on, and devices are listed") {
  CudaOptions options;
  options.weights = CudaWeights::int8;
  const BackendInfo info = small_backend(options)->info();
  CHECK(info.device == "cuda:0 harness (sm_90)");
  CHECK(info.isa == "sm_90");
  CHECK(info.weights == "int8");
  CHECK(info.kv == "bf16");
  CHECK(info.gemm == "exact");
  const simt::WithDevices two({.devices = 2, .major = 7, .minor = 5});
  const std::vector<CudaDevice> devices = cuda_devices();
  REQUIRE(devices.size() == 2);
  CHECK(devices[1].index == 1);
  CHECK(devices[1].architecture == "sm_75");
  CHECK(small_backend()->info().kv == "f16");
}
