// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "model/text/jinja_ops.hpp"

namespace cairn::text::jinja {

/// True for every method name of Python's str, offered here or not.
bool is_string_method(std::string_view name);
/// Fails with "not supported" for the ones that are not offered.
Value call_string_method(Heap& heap, const OriginText& self, std::string_view name,
                         const Args& args);

}  // namespace cairn::text::jinja
