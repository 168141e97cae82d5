// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja.hpp"

#include "model/text/jinja_interp.hpp"
#include "model/text/jinja_parser.hpp"

namespace cairn::text::jinja {
namespace {

Error to_error(const TemplateError& error, int line) {
  if (error.raised) return {ErrorCode::bad_request, error.message, ""};
  if (error.line != 0) line = error.line;
  return {ErrorCode::bad_request,
          "chat template, line " + std::to_string(line) + ": " + error.message, ""};
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  if (!json::valid_utf8(source))
    return Error{ErrorCode::bad_request, "chat template: not UTF-8", ""};
  try {
    return Template(parse_template(source));
  } catch (const TemplateError& error) {
    return to_error(error, 1);
  }
}

Result<OriginText> Template::render(const std::vector<Variable>& variables,
                                    const RenderLimits& limits, std::time_t now) const {
  Interp interp(limits, now);
  try {
    for (const Variable& variable : variables) {
      interp.define(variable.name, interp.heap().from_json(variable.value, variable.origin));
    }
    return interp.run(body_);
  } catch (const TemplateError& error) {
    return to_error(error, interp.line());
  }
}

}  // namespace cairn::text::jinja
