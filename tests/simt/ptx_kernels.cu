// SPDX-License-Identifier: Apache-2.0
// ptxas sees every function of kernels/cuda/{memory,ptx}.cuh, used by a kernel of ours or not.
#include "tests/simt/ptx_kernels.cuh"

namespace cairn::kernels::cuda {

template <class Kernel>
constexpr auto kEntry = &run_kernel<Kernel>;

template <class... Kernels>
void instantiate() {
  (void)(... && (kEntry<Kernels> != nullptr));
}

template void instantiate<
    simt::LoadMatrices<1, false>, simt::LoadMatrices<1, true>, simt::LoadMatrices<2, false>,
    simt::LoadMatrices<2, true>, simt::LoadMatrices<4, false>, simt::LoadMatrices<4, true>,
    simt::MultiplyTile<simt::MmaKind::bf16_16x8x16>, simt::MultiplyTile<simt::MmaKind::f16_16x8x16>,
    simt::MultiplyTile<simt::MmaKind::f16_16x8x8>, simt::CopyRounds<4>, simt::CopyRounds<8>,
    simt::CopyRounds<16>, simt::MoveOne<Bf16>, simt::MoveOne<float>, simt::MoveOne<Vec<float, 2>>,
    simt::MoveOne<Vec<float, 4>>, simt::PackPair>();

}  // namespace cairn::kernels::cuda
