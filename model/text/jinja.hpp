// SPDX-License-Identifier: Apache-2.0
// An interpreter for the part of Jinja that chat templates use, with Python's semantics.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "model/text/chat.hpp"
#include "model/text/jinja_ast.hpp"
#include "model/text/jinja_text.hpp"

namespace cairn::text::jinja {

/// A template variable; `origin` says who wrote its text.
struct Variable {
  std::string name;
  json::Value value;
  Origin origin = Origin::data;
};

/// A parsed template. Immutable and safe to use from any thread.
class Template {
 public:
  /// The error names construct and line.
  static Result<Template> parse(std::string_view source);

  /// Errors are bad_request: raise_exception's own words, or what failed and on which line. `now`
  /// is what strftime_now sees. Later variables hide earlier ones.
  Result<OriginText> render(const std::vector<Variable>& variables, const RenderLimits& limits,
                            std::time_t now) const;

 private:
  explicit Template(Body body) : body_(std::move(body)) {}
  Body body_;
};

}  // namespace cairn::text::jinja
