// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/report_page.hpp"

#include "engine/simulate/report_chart.hpp"

namespace cairn::engine {
namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;"
    "margin:2rem auto;padding:0 1rem;color:#222;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}"
    "svg{max-width:100%;height:auto}table{border-collapse:collapse}"
    "td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #8884}"
    "td:first-child,th:first-child{text-align:left}.best{font-weight:700}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}}";

}  // namespace

void open_page(std::string& out, std::string_view title) {
  out += "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>";
  append_markup(out, title);
  out += std::string("</title><style>") + kStyle + "</style></head><body>\n<h1>";
  append_markup(out, title);
  out += "</h1>\n";
}

void close_page(std::string& out) { out += "</body></html>\n"; }

void append_cell(std::string& out, const char* tag, std::string_view text, bool best) {
  out += std::string("<") + tag + (best ? " class=\"best\">" : ">");
  append_markup(out, text);
  out += std::string("</") + tag + ">";
}

}  // namespace cairn::engine
