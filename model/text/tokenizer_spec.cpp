// SPDX-License-Identifier: Apache-2.0
#include "model/text/tokenizer_spec.hpp"

#include "base/check.hpp"
#include "model/text/pretokenize.hpp"

namespace cairn::text {
namespace {

using json::Kind;
using json::Value;

[[noreturn]] void fail(std::string_view file, std::string_view field, std::string_view problem) {
  std::string message(file);
  message += ": ";
  message += field;
  if (!field.empty()) message += ' ';
  message += problem;
  throw LoadError(message);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 80;
  return '"' + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "...\"" : "\"");
}

std::string describe(const Value* value) {
  if (!value) return "is missing";
  switch (value->kind()) {
    case Kind::null:
      return "is null";
    case Kind::boolean:
      return value->as_bool() ? "is true" : "is false";
    case Kind::number:
      return "is " + value->text().substr(0, 80);
    case Kind::string:
      return "is " + in_quotes(value->text());
    case Kind::array:
      return "is a list";
    case Kind::object:
      return "is an object";
  }
  return "is unreadable";
}

// One object of a file, with the name that error messages give it.
class Node {
 public:
  Node(std::string_view file, std::string field, const Value* value)
      : file_(file), field_(std::move(field)), value_(value) {}

  [[noreturn]] void expected(std::string_view what) const {
    fail(file_, field_.empty() ? "the document" : field_,
         describe(value_) + ", expected " + std::string(what));
  }
  Node operator[](std::string_view key) const {
    return {file_, field_.empty() ? std::string(key) : field_ + '.' + std::string(key),
            value_ ? value_->find(key) : nullptr};
  }
  Node item(std::size_t i) const {
    return {file_, field_ + '[' + std::to_string(i) + ']', &value_->items()[i]};
  }
  bool absent() const { return !value_ || value_->is(Kind::null); }
  bool is(Kind kind) const { return value_ && value_->is(kind); }
  const Value& object() const {
    if (!is(Kind::object)) expected("an object");
    return *value_;
  }
  const std::vector<Value>& list() const {
    if (!is(Kind::array)) expected("a list");
    return value_->items();
  }
  const std::string& string() const {
    if (!is(Kind::string)) expected("a string");
    return value_->text();
  }
  bool flag(bool when_absent) const {
    if (absent()) return when_absent;
    if (!is(Kind::boolean)) expected("true or false");
    return value_->as_bool();
  }
  std::int32_t id() const {
    if (!is(Kind::number) || !value_->is_integer() || value_->as_int() < 0 ||
        value_->as_int() > kMaxTokenId) {
      expected("a token id from 0 to " + std::to_string(kMaxTokenId));
    }
    return static_cast<std::int32_t>(value_->as_int());
  }
  void must_be(bool wanted, bool when_absent) const {
    if (flag(when_absent) != wanted) {
      fail(file_, field_,
           std::string("is ") + (wanted ? "false" : "true") + ", expected " +
               (wanted ? "true" : "false"));
    }
  }
  void must_be_type(std::string_view wanted) const {
    const Node type = (*this)["type"];
    if (!type.is(Kind::string) || type.string() != wanted) type.expected(in_quotes(wanted));
  }
  void must_be_unused(std::string_view what) const {
    if (absent() || (is(Kind::string) && string().empty())) return;
    if (is(Kind::boolean) && !value_->as_bool()) return;
    expected(std::string("null: ") + std::string(what) + " is not supported");
  }

 private:
  std::string_view file_;
  std::string field_;
  const Value* value_;
};

Node parse(std::string_view file, std::string_view text, TokenizerSpec& spec) {
  Result<Value> document = json::parse(text);
  if (!document) fail(file, "", document.error().message);
  spec.documents.push_back(document.take());
  const Node root(file, "", &spec.documents.back());
  (void)root.object();
  return root;
}

void read_vocab(const Node& vocab, TokenizerSpec& spec) {
  const auto& members = vocab.object().members();
  spec.vocab.reserve(members.size());
  for (const auto& [piece, id] : members) {
    // The common case without a Node: there are a quarter million of them.
    const bool plain = id.is_integer() && id.as_int() >= 0 && id.as_int() <= kMaxTokenId;
    spec.vocab.emplace_back(piece,
                            plain ? static_cast<std::int32_t>(id.as_int()) : vocab[piece].id());
  }
}

// "left right": neither half is empty or has a blank in it.
bool split_merge(std::string_view line, std::pair<std::string_view, std::string_view>& out) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 == line.size()) return false;
  out = {line.substr(0, blank), line.substr(blank + 1)};
  return out.second.find(' ') == std::string_view::npos;
}

void read_merges(const Node& merges, TokenizerSpec& spec) {
  const auto& items = merges.list();
  spec.merges.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value& item = items[i];
    if (item.is(Kind::string) && split_merge(item.text(), spec.merges[i])) continue;
    const auto& pair = item.items();
    if (pair.size() != 2 || !pair[0].is(Kind::string) || !pair[1].is(Kind::string)) {
      merges.item(i).expected("\"left right\" or [\"left\", \"right\"]");
    }
    spec.merges[i] = {pair[0].text(), pair[1].text()};
  }
}

void read_merges_txt(std::string_view text, TokenizerSpec& spec) {
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || (line.empty() && text.empty())) continue;
    std::pair<std::string_view, std::string_view> merge;
    if (!json::valid_utf8(line) || !split_merge(line, merge)) {
      fail("merges.txt", "line " + std::to_string(line_number),
           "is no merge, expected two pieces with a blank between");
    }
    spec.merges.push_back(merge);
  }
}

void read_added_token(const Node& node, std::int32_t id, TokenizerSpec& spec) {
  AddedToken token;
  token.id = id;
  token.content = node["content"].string();
  if (token.content.empty()) node["content"].expected("a token's text");
  token.special = node["special"].flag(false);
  token.normalized = node["normalized"].flag(!token.special);
  node["lstrip"].must_be(false, false);
  node["rstrip"].must_be(false, false);
  node["single_word"].must_be(false, false);
  for (const AddedToken& other : spec.added) {
    if (other.id == token.id && other.content == token.content) return;  // both files list it
    if (other.id == token.id)
      node["content"].expected(in_quotes(other.content) + ", which has the same id");
    if (other.content == token.content) {
      node["content"].expected("another text: id " + std::to_string(other.id) + " has this one");
    }
  }
  spec.added.push_back(std::move(token));
}

void read_normalizer(const Node& normalizer, TokenizerSpec& spec) {
  if (normalizer.absent()) {
    spec.nfc = false;
    return;
  }
  const Node type = normalizer["type"];
  if (type.is(Kind::string) && type.string() == "Sequence") {
    const Node parts = normalizer["normalizers"];
    spec.nfc = false;
    for (std::size_t i = 0; i < parts.list().size(); ++i) {
      parts.item(i).must_be_type("NFC");
      spec.nfc = true;
    }
    return;
  }
  normalizer.must_be_type("NFC");
}

void read_pre_tokenizer(const Node& node, TokenizerSpec& spec) {
  node.must_be_type("Sequence");
  const Node parts = node["pretokenizers"];
  if (parts.list().size() != 2) parts.expected("exactly two: Split and ByteLevel");
  const Node split = parts.item(0);
  split.must_be_type("Split");
  if (split["behavior"].string() != "Isolated") split["behavior"].expected("\"Isolated\"");
  split["invert"].must_be(false, false);
  spec.pattern = split["pattern"]["Regex"].string();
  const Node bytes = parts.item(1);
  bytes.must_be_type("ByteLevel");
  bytes["add_prefix_space"].must_be(false, true);
  bytes["use_regex"].must_be(false, true);
}

void read_tokenizer_json(std::string_view text, TokenizerSpec& spec) {
  const Node root = parse("tokenizer.json", text, spec);
  const Node model = root["model"];
  const Node type = model["type"];
  if (!type.absent() && (!type.is(Kind::string) || type.string() != "BPE"))
    type.expected("\"BPE\"");
  model["dropout"].must_be_unused("dropout");
  model["unk_token"].must_be_unused("an unknown token");
  model["continuing_subword_prefix"].must_be_unused("a prefix of continuing pieces");
  model["end_of_word_suffix"].must_be_unused("a suffix of words");
  model["byte_fallback"].must_be_unused("byte fallback");
  model["ignore_merges"].must_be_unused("ignoring merges");
  read_normalizer(root["normalizer"], spec);
  read_pre_tokenizer(root["pre_tokenizer"], spec);
  root["decoder"].must_be_type("ByteLevel");
  if (!root["post_processor"].absent()) root["post_processor"].must_be_type("ByteLevel");
  read_vocab(model["vocab"], spec);
  read_merges(model["merges"], spec);
  const Node added = root["added_tokens"];
  if (added.absent()) return;
  for (std::size_t i = 0; i < added.list().size(); ++i) {
    read_added_token(added.item(i), added.item(i)["id"].id(), spec);
  }
}

std::optional<std::string> read_token_name(const Node& node) {
  if (node.absent()) return std::nullopt;
  if (node.is(Kind::object)) return node["content"].string();
  return node.string();
}

void read_tokenizer_config(std::string_view text, TokenizerSpec& spec) {
  const Node root = parse("tokenizer_config.json", text, spec);
  root["add_bos_token"].must_be(false, false);
  root["add_prefix_space"].must_be(false, false);
  spec.eos_token = read_token_name(root["eos_token"]);
  spec.pad_token = read_token_name(root["pad_token"]);
  const Node decoder = root["added_tokens_decoder"];
  if (!decoder.absent()) {
    for (const auto& [key, value] : decoder.object().members()) {
      const Value number = Value::number(key);
      const bool digits = !key.empty() && key.size() < 10 &&
                          key.find_first_not_of("0123456789") == std::string::npos;
      if (!digits)
        fail("tokenizer_config.json", "added_tokens_decoder",
             "has the key " + in_quotes(key) + ", expected a token id");
      const std::int32_t id =
          Node("tokenizer_config.json", "added_tokens_decoder's key", &number).id();
      read_added_token(decoder[key], id, spec);
    }
  }
  // A string, or a list of {"name", "template"} of which "default" is for chat.
  const Node chat = root["chat_template"];
  if (chat.absent()) return;
  if (chat.is(Kind::string)) {
    spec.chat_template = chat.string();
    return;
  }
  for (std::size_t i = 0; i < chat.list().size(); ++i) {
    const Node entry = chat.item(i);
    if (entry["name"].string() == "default") spec.chat_template = entry["template"].string();
  }
}

}  // namespace

TokenizerSpec read_tokenizer_spec(const TokenizerFiles& files) {
  TokenizerSpec spec;
  spec.documents.reserve(3);  // nodes point to its elements
  if (!files.tokenizer_json.empty()) {
    read_tokenizer_json(files.tokenizer_json, spec);
  } else if (!files.vocab_json.empty() && !files.merges_txt.empty()) {
    spec.vocab_file = "vocab.json";
    spec.merges_file = "merges.txt";
    spec.pattern = kQwen35Pattern;
    read_vocab(parse("vocab.json", files.vocab_json, spec), spec);
    read_merges_txt(files.merges_txt, spec);
  } else {
    throw LoadError("tokenizer.json is missing, expected it or vocab.json with merges.txt");
  }
  if (!files.tokenizer_config_json.empty())
    read_tokenizer_config(files.tokenizer_config_json, spec);
  if (!files.chat_template_jinja.empty()) spec.chat_template = files.chat_template_jinja;
  return spec;
}

}  // namespace cairn::text
