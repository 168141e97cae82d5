// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "model/text/jinja_ast.hpp"

namespace cairn::text::jinja {

/// Parses a template. Throws TemplateError that names the construct and its line.
Body parse_template(std::string_view source);

}  // namespace cairn::text::jinja
