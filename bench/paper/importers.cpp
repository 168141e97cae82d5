// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/importers.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <unordered_map>

#include "base/check.hpp"
#include "base/json.hpp"
#include "bench/paper/csv.hpp"

namespace cairn::paper {
namespace {

const std::string& string_field(const json::Value& object, const char* field,
                                const std::string& where) {
  const json::Value* v = object.find(field);
  if (v && v->is(json::Kind::string)) return v->text();
  throw LoadError(where + ": field '" + field + "': expected a string");
}

const json::Array& array_field(const json::Value& object, const char* field,
                               const std::string& where) {
  const json::Value* v = object.find(field);
  if (v && v->is(json::Kind::array)) return v->items();
  throw LoadError(where + ": field '" + field + "': expected an array");
}

std::string question_text(const json::Value& question, const std::string& where) {
  std::string text = string_field(question, "question", where);
  char letter = 'A';
  for (const json::Value& option : array_field(question, "options", where)) {
    if (!option.is(json::Kind::string)) {
      throw LoadError(where + ": field 'options': expected strings");
    }
    text += std::string("\n") + letter++ + ". " + option.text();
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream in(read_text(path));
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

/// Documents by a key, in order of appearance.
class Shelf {
 public:
  Document& at(const std::string& key) {
    const auto [entry, fresh] = index_.try_emplace(key, documents_.size());
    if (fresh) documents_.emplace_back();
    return documents_[entry->second];
  }
  bool has(const std::string& key) const { return index_.count(key) > 0; }
  std::vector<Document> take() { return std::move(documents_); }

 private:
  std::vector<Document> documents_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

std::vector<Document> import_quality(const std::string& path) {
  Shelf shelf;
  std::istringstream in(read_text(path));
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = path + ":" + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto value = json::parse(line);
    if (!value) throw LoadError(where + ": expected a JSON object: " + value.error().message);
    const std::string& article = string_field(*value, "article", where);
    Document& document = shelf.at(article);
    document.text = article;
    for (const json::Value& question : array_field(*value, "questions", where)) {
      document.questions.push_back(question_text(question, where));
    }
  }
  return shelf.take();
}

std::vector<Document> import_narrativeqa(const std::string& summaries_csv,
                                         const std::string& qaps_csv) {
  Shelf shelf;
  for (const auto& row : read_csv(summaries_csv, {"document_id", "summary"}).rows) {
    shelf.at(row[0]).text = row[1];
  }
  const CsvTable questions = read_csv(qaps_csv, {"document_id", "question"});
  for (std::size_t i = 0; i < questions.rows.size(); ++i) {
    const auto& row = questions.rows[i];
    if (!shelf.has(row[0])) {
      throw LoadError(qaps_csv + ": row " + std::to_string(i + 1) +
                      ": field 'document_id': expected one that " + summaries_csv + " has");
    }
    shelf.at(row[0]).questions.push_back(row[1]);
  }
  return shelf.take();
}

std::vector<Document> import_system_prompts(const std::string& folder, const std::string& queries) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const auto kind = at->path().extension();
    if (at->is_regular_file(error) && (kind == ".md" || kind == ".txt")) {
      paths.push_back(at->path().string());
    }
  }
  if (error) throw LoadError(folder + ": cannot be read: " + error.message());
  if (paths.empty()) throw LoadError(folder + ": expected .md or .txt files");
  std::sort(paths.begin(), paths.end());
  const std::vector<std::string> asked = lines_of(queries);
  if (asked.empty()) throw LoadError(queries + ": expected a query a line");
  std::vector<Document> out;
  for (const std::string& path : paths) out.push_back({read_text(path), asked});
  return out;
}

}  // namespace cairn::paper
