// SPDX-License-Identifier: Apache-2.0
// Whether this build looks for memory errors or races, which makes everything some ten times
// slower: a test may then walk through fewer of many alike cases.
#pragma once

namespace cairn::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace cairn::testing
