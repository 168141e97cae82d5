// SPDX-License-Identifier: Apache-2.0
// The kernels of a model's shapes as work that can be repeated, with what each has to do at least.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/chunks.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "model/net/config.hpp"

namespace cairn::cli {

/// What the operations of a kernel are.
enum class Arithmetic : std::uint8_t { multiply_adds, rounded_products, integer_products };

/// One kernel at one shape.
struct KernelCase {
  std::string kernel;        // as named by kernel_names()
  std::string shape;         // for people
  std::int64_t rows = 0;     // tokens that one call works on
  std::int64_t context = 0;  // keys that the last row sees; 0: none
  double operations = 0;     // of the units that do the most; a multiply-add is two
  Arithmetic arithmetic = Arithmetic::multiply_adds;
  double bytes = 0;        // from memory and to it, when no operand is in a cache
  std::int64_t calls = 1;  // in a pass of these rows through the model
  std::function<void(std::int64_t round)> work;  // each round has operands that no cache holds
};

/// What all cases share. Lives as long as their work.
struct KernelBench {
  const kernels::Ops& ops;
  kernels::ThreadPool& pool;
  const model::ModelConfig& shape;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> contexts;
  std::vector<std::string> kernels;  // those wanted; empty: all
  std::span<std::byte> arena;        // operands that fill it push each other out of the caches

  bool wants(const std::string& kernel) const {
    return kernels.empty() || std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
  }
  /// As the backend splits.
  template <class F>
  void split(std::int64_t n, std::int64_t grain, F&& fn) const {
    kernels::split(pool, n, grain, fn);
  }
};

/// Copies of an array, enough to push each other out of the caches (one that leaves no room for a
/// second stands alone). All hold the same numbers between -1 and 1. Views into the arena, which
/// each array fills anew: one lives at a time.
class ColdArray {
 public:
  ColdArray(std::int64_t floats, const KernelBench& on);
  float* at(std::int64_t round) { return data_ + round % copies_ * stride_; }
  std::int64_t copies() const { return copies_; }

 private:
  std::int64_t stride_;
  std::int64_t copies_;
  kernels::HugeBuffer own_;  // of one that the arena cannot hold
  float* data_;
};

/// Numbers between -scale and scale, the same for the same n.
std::vector<float> some_floats(std::int64_t n, float scale = 1.0F);

using TakeCase = std::function<void(const KernelCase&)>;

/// Each builds its cases and hands them over one by one; work is valid during the call only.
void product_cases(const KernelBench& on, const TakeCase& take);
void row_cases(const KernelBench& on, const TakeCase& take);
void recurrence_cases(const KernelBench& on, const TakeCase& take);
void attention_cases(const KernelBench& on, const TakeCase& take);
void sampling_cases(const KernelBench& on, const TakeCase& take);

/// Every kernel that those have cases of, in their order.
const std::vector<std::string>& kernel_names();

}  // namespace cairn::cli
