// SPDX-License-Identifier: Apache-2.0
// cuBLASLt for projections whose rows keep their bits in every batch under it. The library is
// opened when it is asked for, so that a program needs none of it to start.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/gemm.hpp"

namespace cairn::kernels::cuda {

/// One device's cuBLASLt: bf16 times bf16, summed in fp32, rounded last. Launches work in one
/// workspace, so they all go to one stream. Not thread-safe.
class LtGemm {
 public:
  virtual ~LtGemm() = default;

  /// At load: picks the algorithm for weights of this shape and tests it up to the bucket of
  /// `max_rows` (lt_choices.hpp). Allocates and waits. False: the weight stays with gemm(). `w` is
  /// the weight, on the device; its values do not matter to the choice.
  virtual bool prepare(Bf16Weight w, std::int64_t n, std::int64_t k, bool bf16_out,
                       std::int64_t max_rows) = 0;

  /// Queues y = x W^T where prepare() said true for the shape and at least so many rows; false, and
  /// nothing queued, otherwise. May be recorded in a graph. gemm_bucket(rows) rows of x are read
  /// and of y written: what lies in the rows beyond does not matter, but they must be there.
  virtual bool run(Stream stream, const GemmArgs<Bf16Weight, float>& args) = 0;
  virtual bool run(Stream stream, const GemmArgs<Bf16Weight, Bf16>& args) = 0;

  /// Shapes that were left to gemm().
  virtual int rejected() const = 0;
  /// Names device, library version and what was chosen for the shapes prepared so far: products of
  /// two with the same name have the same bits.
  virtual std::string digest() const = 0;
};

/// `record` is the file of chosen algorithms ("": none is kept). Throws DeviceError when the
/// library is missing, or the program was built without it.
std::unique_ptr<LtGemm> make_lt_gemm(int device, const std::string& record);

}  // namespace cairn::kernels::cuda
