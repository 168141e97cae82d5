// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/gemm.hpp"
#include "tests/gpu_check/arrays.hpp"
#include "tests/gpu_check/bounds.hpp"
#include "tests/gpu_check/shapes.hpp"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT

constexpr std::int32_t kGroup = 128;

/// What launches of one weight share.
struct Operands {
  Operands(WorkStream& stream, const WeightShape& shape, std::int64_t rows)
      : plan(gemm_plan(rows, shape.n, shape.k)),
        x(stream, rows * shape.k),
        y(rows * shape.n),
        sums(gemm_workspace(plan, rows, shape.n, shape.k).sums + 1),
        arrived(gemm_workspace(plan, rows, shape.n, shape.k).arrived + 1) {
    stream.zero(arrived.memory().data(), arrived.memory().size());
  }
  template <class Weight, class Out>
  void fill(const WeightShape& shape, std::int64_t rows, GemmArgs<Weight, Out>& args) const {
    args.x = x.get();
    args.ldx = args.k = shape.k;
    args.rows = rows;
    args.n = shape.n;
    args.workspace = {sums.get(), arrived.get()};
  }
  GemmPlan plan;
  Array<Bf16> x;
  Space<float> y;
  Space<float> sums;
  Space<std::int32_t> arrived;
};

Work work_of(const WeightShape& shape, std::int64_t rows, double weight_bytes) {
  const auto n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  const auto r = static_cast<double>(rows);
  return {n * k * weight_bytes + r * (2 * k + 4 * n), 2 * n * k * r, 0};
}

/// The same weight in several places, that of launch i being i % copies.
template <class T>
struct Copies {
  Copies(KernelClock& clock, const WeightShape& shape)
      : elements(shape.n * shape.k),
        count(clock.copies(static_cast<double>(elements) * sizeof(T))),
        values(clock.stream(), elements * count) {}
  const T* of(int launch) const { return values.get() + launch % count * elements; }
  std::int64_t elements;
  int count;
  Array<T> values;
};

std::string name_of(const WeightShape& shape, std::int64_t rows, const char* kind) {
  return "gemm " + shape.name + kind + ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
}

/// SwiGLU in the same launch where the model has it there.
void measure_bf16(KernelClock& clock, const WeightShape& shape, const Copies<Bf16>& w,
                  std::int64_t rows) {
  const Operands o(clock.stream(), shape, rows);
  const bool pairs = shape.name == "gate and up";
  clock.measure(name_of(shape, rows, pairs ? " with swiglu" : ""), work_of(shape, rows, 2),
                rows > 64 ? 4 : std::max(20, 2 * w.count), [&](int i) {
                  if (pairs) {
                    GemmArgs<Bf16Weight, Bf16> args;
                    o.fill(shape, rows, args);
                    args.weight = {w.of(i)};
                    args.y = reinterpret_cast<Bf16*>(o.y.get());
                    args.ldy = shape.n / 2;
                    return gemm_swiglu(clock.stream().get(), args, o.plan);
                  }
                  GemmArgs<Bf16Weight, float> args;
                  o.fill(shape, rows, args);
                  args.weight = {w.of(i)};
                  args.y = o.y.get();
                  args.ldy = shape.n;
                  gemm(clock.stream().get(), args, o.plan);
                });
}

void measure_int8(KernelClock& clock, const WeightShape& shape, std::int64_t rows) {
  const Operands o(clock.stream(), shape, rows);
  const Copies<std::int8_t> w(clock, shape);
  const Array<Bf16> scales(clock.stream(), ceil_div(shape.k, kGroup) * shape.n);
  clock.measure(name_of(shape, rows, " int8"), work_of(shape, rows, 1 + 2.0 / kGroup),
                rows > 64 ? 4 : std::max(20, 2 * w.count), [&](int i) {
                  GemmArgs<Int8Weight, float> args;
                  o.fill(shape, rows, args);
                  args.weight = {w.of(i), scales.get(), kGroup};
                  args.y = o.y.get();
                  args.ldy = shape.n;
                  gemm(clock.stream().get(), args, o.plan);
                });
}

}  // namespace

void measure_projections(KernelClock& clock) {
  for (const WeightShape& shape : weight_shapes()) {
    const Copies<Bf16> w(clock, shape);
    measure_bf16(clock, shape, w, 1);
    measure_bf16(clock, shape, w, 32);
    if (!shape.is_head) measure_bf16(clock, shape, w, kPrefillRows);
  }
  for (const WeightShape& shape : weight_shapes()) {
    if (shape.is_head) continue;
    measure_int8(clock, shape, 1);
    measure_int8(clock, shape, kPrefillRows);
  }
}

}  // namespace cairn::gpu_check
