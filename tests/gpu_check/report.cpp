// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/report.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "base/json.hpp"
#include "base/json_text.hpp"

namespace cairn::gpu_check {
namespace {

constexpr const char* kStates[] = {"measured", "passed", "failed", "skipped"};

std::string text_of(const json::Value& object, const char* key) {
  const json::Value* value = object.find(key);
  return value == nullptr ? "" : value->text();
}

State state_of(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (name == kStates[i]) return static_cast<State>(i);
  }
  return State::failed;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace

std::string to_json(const Row& row) {
  JsonWriter json;
  json.begin_object().key("part").string(row.part).key("name").string(row.name);
  json.key("state").string(kStates[static_cast<int>(row.state)]);
  if (!row.unit.empty()) json.key("value").number(row.value).key("unit").string(row.unit);
  if (row.share >= 0) json.key("share").number(row.share);
  if (!row.note.empty()) json.key("note").string(row.note);
  return json.end_object().take();
}

std::vector<Row> read_rows(const std::string& path) {
  std::vector<Row> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto parsed = json::parse(line);
    if (!parsed) continue;
    const json::Value& object = *parsed;
    Row row{text_of(object, "part"), text_of(object, "name"), state_of(text_of(object, "state"))};
    row.unit = text_of(object, "unit");
    row.note = text_of(object, "note");
    if (const json::Value* value = object.find("value")) row.value = value->as_double();
    if (const json::Value* share = object.find("share")) row.share = share->as_double();
    rows.push_back(std::move(row));
  }
  return rows;
}

void Report::add(Row row) {
  row.part = part_;
  std::ofstream out(path_, std::ios::app);
  out << to_json(row) + "\n";
  out.close();
  if (!out) throw std::runtime_error(path_ + " cannot be written");
}

void Report::measured(const std::string& name, double value, const std::string& unit,
                      const std::string& note) {
  add({"", name, State::measured, value, unit, -1, note});
}
void Report::share(const std::string& name, double value, const std::string& unit, double share,
                   const std::string& note) {
  add({"", name, State::measured, value, unit, share, note});
}
void Report::fact(const std::string& name, const std::string& what) {
  add({"", name, State::measured, 0, "", -1, what});
}
void Report::passed(const std::string& name, const std::string& note) {
  add({"", name, State::passed, 0, "", -1, note});
}
void Report::failed(const std::string& name, const std::string& why) {
  add({"", name, State::failed, 0, "", -1, why});
}
void Report::skipped(const std::string& name, const std::string& why) {
  add({"", name, State::skipped, 0, "", -1, why});
}

std::string table(const std::vector<Row>& rows) {
  std::string text, part;
  for (const Row& row : rows) {
    if (row.part != part) text += "\n" + row.part + "\n";
    part = row.part;
    std::string value = row.state == State::measured ? "" : kStates[static_cast<int>(row.state)];
    if (!row.unit.empty()) {
      char digits[32];
      std::snprintf(digits, sizeof digits, row.value < 1000 ? "%.4g" : "%.0f", row.value);
      value = digits + (" " + row.unit);
    }
    std::string share;
    if (row.share >= 0) share = std::to_string(static_cast<int>(100 * row.share + 0.5)) + " %";
    text += "  " + padded(row.name, 44) + padded(value, 18) + padded(share, 7) + row.note + "\n";
  }
  return text;
}

std::string document(const std::vector<Row>& rows, bool dry_run, double seconds) {
  JsonWriter head;
  head.begin_object().key("dry_run").boolean(dry_run).key("seconds").number(seconds).key("rows");
  std::string text = head.take() + "[\n";  // a row a line, for people
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += to_json(rows[i]) + (i + 1 < rows.size() ? ",\n" : "\n");
  }
  return text + "]}\n";
}

}  // namespace cairn::gpu_check
