// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm_quantised_body.hpp"
#include "kernels/cpu/shared.hpp"
#include "kernels/cpu/table_body.hpp"
#include "kernels/cpu/vec_portable.hpp"

namespace cairn::kernels {

constinit const Ops shared::kPortable = make_table<VecPortable, WideTile<VecPortable>>(
    Isa::portable, {shared::quantise_rows, GemmQuantised<QuantTilePortable>::run});

}  // namespace cairn::kernels
