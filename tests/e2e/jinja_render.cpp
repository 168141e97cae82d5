// SPDX-License-Identifier: Apache-2.0
// Renders templates for the comparison with the reference interpreter: one {"template", "context"}
// JSON object per line in, one {"output", "segments"} or {"error"} per line out.
#include <ctime>
#include <iostream>
#include <string>

#include "base/json.hpp"
#include "model/text/jinja.hpp"
#include "model/text/jinja_ops.hpp"

using namespace cairn;
using text::jinja::Origin;
using text::jinja::OriginText;

namespace {

std::string quoted(const std::string& text) {
  OriginText out;
  text::jinja::append_json_string(out, OriginText(text, Origin::data), true);
  return out.bytes();
}

Result<OriginText> render(const std::string& line) {
  const Result<json::Value> request = json::parse(line);
  if (!request.ok()) return request.error();
  const json::Value* source = request->find("template");
  const json::Value* context = request->find("context");
  if (source == nullptr || context == nullptr)
    return Error{ErrorCode::bad_request, "template or context missing", ""};
  const auto parsed = text::jinja::Template::parse(source->text());
  if (!parsed.ok()) return parsed.error();
  std::vector<text::jinja::Variable> variables;
  for (const auto& [name, value] : context->members())
    variables.push_back({name, value, Origin::data});
  return parsed->render(variables, {}, std::time(nullptr));
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const Result<OriginText> text = render(line);
    if (!text.ok()) {
      std::cout << "{\"error\": " << quoted(text.error().message) << "}\n";
      continue;
    }
    std::cout << "{\"output\": " << quoted(text->bytes()) << ", \"segments\": [";
    std::size_t begin = 0;
    for (const auto& run : text->runs()) {
      std::cout << (begin > 0 ? ", " : "") << "[" << run.end - begin << ", "
                << (run.origin == Origin::from_template ? "true" : "false") << "]";
      begin = run.end;
    }
    std::cout << "]}\n";
  }
}
