// SPDX-License-Identifier: Apache-2.0
// Who shares cached prompts with whom.
#pragma once

#include <string>
#include <string_view>

namespace cairn::engine {

/// The scope of a request's lookups and of what it leaves (LookupRequest::scope): "" without key
/// and salt, shared by all; else 32 bytes, a SHA-256 of both that is equal only for equal pairs and
/// that tells neither. The same on every start, so that what is on disk is found again.
std::string cache_scope_of(std::string_view client_key, std::string_view salt);

}  // namespace cairn::engine
