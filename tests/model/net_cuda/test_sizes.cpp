// SPDX-License-Identifier: Apache-2.0
// Room for every step that the limits let through: an overrun inside one allocation shows nowhere.
#include <algorithm>
#include <random>

#include "model/net/cuda_batch.hpp"
#include "model/net/cuda_work.hpp"
#include "model/net/weights.hpp"
#include "tests/model/net_cuda/small_model.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::model;
namespace cuda = cairn::kernels::cuda;

namespace {

/// Lengths of slices that fill a step: one token each, then more while rows are left.
std::vector<std::int32_t> lengths(std::mt19937& random, const BatchLimits& limits) {
  std::vector<std::int32_t> all(1 + random() % static_cast<unsigned>(limits.slices), 1);
  std::int32_t left = limits.rows - static_cast<std::int32_t>(all.size());
  for (std::int32_t& length : all) {
    const auto most = static_cast<unsigned>(std::min(left, limits.context - length));
    const auto more = static_cast<std::int32_t>(random() % (random() % 2 == 0 ? 20 : most + 1));
    length += std::min(more, static_cast<std::int32_t>(most));
    left -= length - 1;
  }
  return all;
}

/// The tables' bytes of a step at the end of its contexts, with logits and saves at every row.
std::size_t bytes_of(const BatchLimits& limits, const std::vector<std::int32_t>& lengths) {
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(limits.rows));
  std::vector<std::vector<SavePoint>> saves;
  std::vector<StepSlice> slices;
  for (const std::int32_t length : lengths) {
    StepSlice slice;
    slice.tokens = std::span(tokens).first(static_cast<std::size_t>(length));
    slice.position = limits.context - length;
    slice.logits_from = 0;
    saves.emplace_back();
    for (std::int32_t i = 1; i <= length; ++i)
      saves.back().push_back({slice.position + i, nullptr});
    slice.saves = saves.back();
    slices.push_back(slice);
  }
  StepBatch batch(limits);
  batch.build(slices, nullptr);
  return batch.bytes();
}

}  // namespace

TEST_CASE("the tables of any step within the limits find room") {
  std::mt19937 random(11);
  std::size_t fullest = 0;  // percent
  for (int round = 0; round < 400; ++round) {
    BatchLimits limits;
    limits.rows = 1 + static_cast<std::int32_t>(random() % 300);
    limits.slices = 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(limits.rows));
    limits.context = limits.rows + static_cast<std::int32_t>(random() % 2000);
    limits.group = 1 + static_cast<std::int32_t>(random() % 16);
    const std::size_t room = StepBatch::most_bytes(limits);
    const std::size_t taken = bytes_of(limits, lengths(random, limits));
    INFO(limits.rows << " rows, " << limits.slices << " slices, group " << limits.group);
    REQUIRE(taken <= room);
    fullest = std::max(fullest, 100 * taken / room);
  }
  CHECK(fullest >= 90);
}

TEST_CASE("a decode step filled up to the largest size finds room for its tables") {
  const BatchLimits limits{40, 24, 5000, 4};
  const std::int32_t token = 0;
  StepSlice slice;
  slice.tokens = {&token, 1};
  slice.logits_from = 0;
  StepBatch batch(limits);
  batch.build({&slice, 1}, nullptr);
  batch.pad(limits.slices, ranges_of(limits.context));
  CHECK(batch.bytes() <= StepBatch::most_bytes(limits));
}

TEST_CASE("every number of rows finds room for the sums of its projections") {
  ModelConfig c = testing::small_shape();
  c.hidden_size = 256;
  c.intermediate_size = 512;
  const auto weights = random_weights(c, 1);
  std::vector<const kernels::PackedMatrix*> matrices{&weights->head};
  for (const LayerWeights& layer : weights->layers) {
    for (const auto* m : {&layer.in, &layer.out, &layer.gate_up, &layer.down}) {
      matrices.push_back(m);
    }
  }
  for (const std::int32_t most : {1, 16, 17, 100, 2100}) {
    Upload upload(0, 8192);
    const DeviceWork work(*weights, {{most, 1, 16, 2}, most, 1, 64}, 0, upload);
    const auto* const sums = reinterpret_cast<const std::byte*>(work.gemm.sums);
    const auto* const arrived = reinterpret_cast<const std::byte*>(work.gemm.arrived);
    bool splits = false;
    for (std::int64_t rows = 1; rows <= most; ++rows) {
      for (const kernels::PackedMatrix* m : matrices) {
        const cuda::GemmPlan plan = cuda::gemm_plan(rows, m->n(), m->k());
        const cuda::GemmWorkspaceSize needed = cuda::gemm_workspace(plan, rows, m->n(), m->k());
        INFO(rows << " rows of at most " << most << ", n " << m->n() << ", k " << m->k());
        REQUIRE(4 * needed.sums <= arrived - sums);
        REQUIRE(4 * needed.arrived <= work.tables - arrived);
        splits |= plan.split;
      }
    }
    CHECK(splits);  // with 2,100 rows the smaller buckets alone
    upload.finish();
  }
}
