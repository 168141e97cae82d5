// SPDX-License-Identifier: Apache-2.0
// Row invariance of projections on this device: the bits of a row alone, anywhere in every bucket.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "kernels/cuda/cublaslt.hpp"
#include "tests/gpu_check/parts.hpp"
#include "tests/gpu_check/probes.hpp"
#include "tests/gpu_check/shapes.hpp"
#include "tests/gpu_check/timing.hpp"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT

constexpr std::uint32_t kSeed = 7;

/// Rows that lie at every edge of a fragment and of a tile, and the last.
std::vector<std::int64_t> sampled_rows(std::int64_t rows) {
  std::vector<std::int64_t> sampled;
  for (const std::int64_t row : {0, 1, 7, 8, 15, 16, 31, 63, 64, 65, 127, 128, 255, 256, 1000}) {
    if (row < rows) sampled.push_back(row);
  }
  if (sampled.back() != rows - 1) sampled.push_back(rows - 1);
  return sampled;
}

std::vector<std::int64_t> buckets_up_to(std::int64_t rows) {
  std::vector<std::int64_t> buckets;
  for (std::int64_t b = gemm_bucket(1); b <= gemm_bucket(rows); b = gemm_bucket(b + 1)) {
    buckets.push_back(b);
  }
  return buckets;
}

/// One weight with x for the largest bucket.
template <class Weight>
class Projection {
 public:
  Projection(const WeightShape& shape, std::int64_t rows)
      : shape_(shape),
        stream_(kDevice),
        w_(kDevice, bytes(shape.n * shape.k * kWeightBytes), "a weight"),
        scales_(kDevice, bytes(ceil_div(shape.k, kGroup) * shape.n * 2), "scales"),
        x_(kDevice, bytes(rows * shape.k * 2), "x"),
        y_(kDevice, bytes(rows * shape.n * 4), "y"),
        one_(kDevice, bytes(rows * shape.n * 4), "y of rows alone"),
        sums_(kDevice, bytes(gemm_segments(shape.n, shape.k) * rows * shape.n * 4), "sums"),
        arrived_(kDevice, bytes(4 * ceil_div(rows, 16) * ceil_div(shape.n, 64)), "counters") {
    const std::int64_t elements = shape.n * shape.k;
    if constexpr (std::is_same_v<Weight, Int8Weight>) {
      fill_random(stream_.get(), w_.template as<std::int8_t>(), elements, kSeed);
      fill_random(stream_.get(), scales_.template as<Bf16>(), ceil_div(shape.k, kGroup) * shape.n,
                  kSeed + 1);
    } else {
      fill_random(stream_.get(), w_.template as<Bf16>(), elements, kSeed);
    }
    fill_random(stream_.get(), x_.template as<Bf16>(), rows * shape.k, kSeed + 2);
    stream_.zero(arrived_.data(), arrived_.size());
  }

  /// "" or the first row whose bits are not those of the row alone.
  std::string first_difference(std::int64_t rows) {
    multiply(0, rows, y_.data());
    const std::vector<std::int64_t> sampled = sampled_rows(rows);
    for (const std::int64_t row : sampled) multiply(row, 1, one_.data() + row * row_bytes());
    const PinnedBuffer both(kDevice, 2 * row_bytes(), "rows");
    for (const std::int64_t row : sampled) {
      stream_.copy_to_host(both.data(), y_.data() + row * row_bytes(), row_bytes());
      stream_.copy_to_host(both.data() + row_bytes(), one_.data() + row * row_bytes(), row_bytes());
      stream_.finish();
      if (std::memcmp(both.data(), both.data() + row_bytes(), row_bytes()) != 0) {
        return "row " + std::to_string(row) + " of " + std::to_string(rows) +
               " has other bits than alone";
      }
    }
    return "";
  }

  /// "" or the place in a tile of 16 equal rows whose bits are not those of the first.
  std::string place_in_fragment() {
    for (int i = 1; i < 16; ++i) {
      stream_.copy_on_device(x_.data() + i * shape_.k * 2, x_.data(), bytes(shape_.k * 2));
    }
    multiply(0, 16, y_.data());
    const PinnedBuffer all(kDevice, 16 * row_bytes(), "rows");
    stream_.copy_to_host(all.data(), y_.data(), all.size());
    stream_.finish();
    for (std::size_t i = 1; i < 16; ++i) {
      if (std::memcmp(all.data(), all.data() + i * row_bytes(), row_bytes()) != 0) {
        return "row " + std::to_string(i) + " of 16 equal ones has other bits than the first";
      }
    }
    return "";
  }

 private:
  static constexpr std::int32_t kGroup = 128;
  static constexpr std::int64_t kWeightBytes = std::is_same_v<Weight, Int8Weight> ? 1 : 2;
  static std::size_t bytes(std::int64_t n) { return static_cast<std::size_t>(n); }
  std::size_t row_bytes() const { return bytes(shape_.n * 4); }

  void multiply(std::int64_t row, std::int64_t rows, std::byte* y) {
    GemmArgs<Weight, float> args;
    args.x = x_.template as<Bf16>() + row * shape_.k;
    args.ldx = args.k = shape_.k;
    args.rows = rows;
    args.n = args.ldy = shape_.n;
    if constexpr (std::is_same_v<Weight, Int8Weight>) {
      args.weight = {w_.template as<std::int8_t>(), scales_.template as<Bf16>(), kGroup};
    } else {
      args.weight = {w_.template as<Bf16>()};
    }
    args.y = reinterpret_cast<float*>(y);
    args.workspace = {sums_.template as<float>(), arrived_.template as<std::int32_t>()};
    gemm(stream_.get(), args);
  }

  WeightShape shape_;
  WorkStream stream_;
  DeviceBuffer w_, scales_, x_, y_, one_, sums_, arrived_;
};

template <class Weight>
void check_weight_rows(Context& context, const WeightShape& shape, const std::string& kind) {
  const std::string name = shape.name + ", " + kind;
  if (!context.has_time(1, name)) return;
  const std::int64_t most = shape.most_rows();
  Projection<Weight> projection(shape, gemm_bucket(most));
  std::string passed, failed;
  for (const std::int64_t bucket : buckets_up_to(most)) {
    const std::string difference = projection.first_difference(bucket);
    if (difference.empty()) {
      passed += " " + std::to_string(bucket);
    } else {
      failed = difference;
      break;
    }
  }
  if (failed.empty()) failed = projection.place_in_fragment();
  if (failed.empty()) {
    context.report.passed(name, "buckets" + passed + "; all 16 places of a tile");
  } else {
    context.report.failed(name, failed);
  }
}

}  // namespace

void check_gemm_rows(Context& context) {
  for (const WeightShape& shape : weight_shapes()) {
    check_weight_rows<Bf16Weight>(context, shape, "bf16");
  }
  for (const WeightShape& shape : weight_shapes()) {
    check_weight_rows<Int8Weight>(context, shape, "int8");
  }
}

void check_cublaslt(Context& context) {
  std::unique_ptr<LtGemm> lt;
  try {
    lt = make_lt_gemm(kDevice, "");
  } catch (const DeviceError& error) {
    context.report.skipped("cuBLASLt", error.what());
    return;
  }
  WorkStream stream(kDevice);
  for (const WeightShape& shape : weight_shapes()) {
    const std::string name = shape.name + ", cuBLASLt";
    if (!context.has_time(1, name)) return;
    const std::int64_t rows = gemm_bucket(shape.most_rows());
    const DeviceBuffer w(kDevice, static_cast<std::size_t>(shape.n * shape.k * 2), "a weight");
    fill_random(stream.get(), w.as<Bf16>(), shape.n * shape.k, kSeed);
    stream.finish();
    if (!lt->prepare({w.as<Bf16>()}, shape.n, shape.k, false, rows)) {
      context.report.fact(name, "rows change their bits: left to our own kernel");
      continue;
    }
    const DeviceBuffer x(kDevice, static_cast<std::size_t>(rows * shape.k * 2), "x");
    const DeviceBuffer y(kDevice, static_cast<std::size_t>(rows * shape.n * 4), "y");
    fill_random(stream.get(), x.as<Bf16>(), rows * shape.k, kSeed + 2);
    GemmArgs<Bf16Weight, float> args;
    args.x = x.as<Bf16>();
    args.weight = {w.as<Bf16>()};
    args.ldx = args.k = shape.k;
    args.n = args.ldy = shape.n;
    args.y = y.as<float>();
    const auto ms = [&](std::int64_t count) {
      args.rows = count;
      return best_ms(stream, 5, [&] { lt->run(stream.get(), args); });
    };
    const double one = ms(1);
    context.report.measured(name + ", 1 row", 1000 * one, "us", "rows keep their bits");
    const double all = ms(rows);
    context.report.measured(name + ", " + std::to_string(rows) + " rows",
                            2.0 * static_cast<double>(shape.n * shape.k * rows) / all / 1e9,
                            "TFLOP/s");
  }
  context.report.measured("left to our kernel", lt->rejected(), "shapes");
}

}  // namespace cairn::gpu_check
