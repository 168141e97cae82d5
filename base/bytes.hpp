// SPDX-License-Identifier: Apache-2.0
// Byte counts as people write and read them, words of bytes as digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cairn {

/// "1536", "64k", "1.5GiB", "2GB", "512 MiB" -> bytes. k/K, M, G, T and KiB.. are powers of 1024;
/// kB, MB, GB, TB powers of 1000.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// 1610612736 -> "1.50 GiB".
std::string format_bytes(std::uint64_t bytes);

/// 64 bits as 16 lower-case hexadecimal digits.
std::string hex_digits(std::uint64_t value);

}  // namespace cairn
