// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for names that neither collide nor tell what they were made of.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

/// The digest's 32 bytes. Thread-safe.
std::string sha256(std::string_view bytes);

}  // namespace cairn
