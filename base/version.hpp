// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn {

/// Of the program and the library; the same as in CMakeLists.txt.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace cairn
