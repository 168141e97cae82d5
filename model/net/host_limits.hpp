// SPDX-License-Identifier: Apache-2.0
// What this process may use of the machine.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::kernels {
struct Ops;
}

namespace cairn::model {

/// Threads worth running here: physical cores that this process may use, less under a CPU quota.
int default_threads();

/// Bytes of memory that can be taken without swapping: what the system has, or less where a
/// container's limit leaves less. 0 when unknown.
std::uint64_t available_memory();
/// All memory that this process may have: the system's, or its container's limit.
std::uint64_t allowed_memory();

/// The kernels of an instruction set, named as in CpuOptions. Throws DeviceError for one that is
/// unknown or that this machine lacks.
const kernels::Ops& ops_for(const std::string& isa);

}  // namespace cairn::model
