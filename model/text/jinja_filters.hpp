// SPDX-License-Identifier: Apache-2.0
// The built-in filters, in two tables.
#pragma once

#include <string_view>

#include "model/text/jinja_interp.hpp"

namespace cairn::text::jinja {

using Filter = Value (*)(Interp&, const Value& input, const Args& args);

/// nullptr when there is no such filter.
Filter find_value_filter(std::string_view name);     // of single values
Filter find_sequence_filter(std::string_view name);  // of sequences

}  // namespace cairn::text::jinja
