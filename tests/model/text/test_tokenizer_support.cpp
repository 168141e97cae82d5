// SPDX-License-Identifier: Apache-2.0
#include "tests/model/text/test_tokenizer_support.hpp"

namespace cairn::text::test {
namespace {

std::string letter(unsigned char byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  if (printable(byte)) return utf8(byte);
  std::uint32_t spare = 256;
  for (int b = 0; b < byte; ++b) spare += printable(b) ? 0 : 1;
  return utf8(spare);
}

std::string spelled(const std::string& piece) {
  std::string out;
  for (const char c : piece) out += letter(static_cast<unsigned char>(c));
  return out;
}

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

const char* const kAdded[][2] = {{"<|endoftext|>", "true"},
                                 {"<|im_start|>", "true"},
                                 {"<|im_end|>", "true"},
                                 {"<think>", "false"},
                                 {"<think>more", "false"}};

std::string added_token(std::size_t i) {
  return std::string(R"("content": ")") + kAdded[i][0] +
         R"(", "lstrip": false, "rstrip": false, "single_word": false, "normalized": false, "special": )" +
         kAdded[i][1];
}

}  // namespace

std::string utf8(std::uint32_t cp) {
  const auto tail = [](std::uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (cp < 0x80) return {static_cast<char>(cp)};
  if (cp < 0x800) return {static_cast<char>(0xC0 | cp >> 6), tail(cp)};
  if (cp < 0x10000) return {static_cast<char>(0xE0 | cp >> 12), tail(cp >> 6), tail(cp)};
  return {static_cast<char>(0xF0 | cp >> 18), tail(cp >> 12), tail(cp >> 6), tail(cp)};
}

MiniTokenizer::MiniTokenizer(std::vector<std::pair<std::string, std::string>> merge_list)
    : merges(std::move(merge_list)) {
  for (int b = 0; b < 256; ++b) vocab[std::string(1, static_cast<char>(b))] = 1000 + b;
  std::int32_t id = 999;
  for (const auto& [left, right] : merges) {
    if (vocab.emplace(left + right, id).second) --id;
  }
}

std::string MiniTokenizer::vocab_json() const {
  std::string out = "{";
  for (const auto& [piece, id] : vocab) {
    if (out.size() > 1) out += ",\n";
    out += json_string(spelled(piece)) + ": " + std::to_string(id);
  }
  return out + "}";
}

std::string MiniTokenizer::merges_txt() const {
  std::string out = "#version: 0.2\n";
  for (const auto& [left, right] : merges) out += spelled(left) + ' ' + spelled(right) + '\n';
  return out;
}

std::string MiniTokenizer::tokenizer_json(bool pairs) const {
  std::string list;
  for (const auto& [left, right] : merges) {
    if (!list.empty()) list += ", ";
    list += pairs ? '[' + json_string(spelled(left)) + ", " + json_string(spelled(right)) + ']'
                  : json_string(spelled(left) + ' ' + spelled(right));
  }
  std::string added;
  for (std::size_t i = 0; i < std::size(kAdded); ++i) {
    added += (i ? ", " : "") + std::string("{\"id\": ") + std::to_string(kEndOfText + i) + ", " +
             added_token(i) + '}';
  }
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" + added +
         R"(], "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)"
         R"({"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, )"
         R"("behavior": "Isolated", "invert": false}, )"
         R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]}, )"
         R"("post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}, )"
         R"("model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", )"
         R"("end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "vocab": )" +
         vocab_json() + ", \"merges\": [" + list + "]}}";
}

std::string MiniTokenizer::tokenizer_config_json() {
  std::string added;
  for (std::size_t i = 0; i < std::size(kAdded); ++i) {
    added += (i ? ", \"" : "\"") + std::to_string(kEndOfText + i) + "\": {" + added_token(i) + '}';
  }
  return R"({"add_bos_token": false, "eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"}, )"
         R"("chat_template": "{{ messages }}", "added_tokens_decoder": {)" +
         added + "}}";
}

Ids MiniTokenizer::merge_by_definition(const std::string& piece) const {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (bool merged = true; merged;) {
    merged = false;
    for (const auto& [left, right] : merges) {
      for (std::size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] += right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(id(part));
  return ids;
}

MiniTokenizer mini() {
  return MiniTokenizer({{"h", "e"}, {"l", "l"},   {"he", "ll"},  {"hell", "o"},  {"o", "r"},
                        {" ", "w"}, {" w", "or"}, {" wor", "l"}, {" worl", "d"}, {"i", "n"},
                        {" ", " "}, {"  ", "  "}, {"\n", "\n"},  {"'", "s"},     {"\xC3", "\xA9"},
                        {"l", "o"}, {"<", "|"},   {"i", "m"},    {"=", "="},     {"==", "=="},
                        {"h", "i"}, {"a", "b"},   {"ab", "c"},   {"b", "c"},     {"a", "bc"}});
}

std::shared_ptr<const Tokenizer> load_mini(const MiniTokenizer& mini) {
  const std::string json = mini.tokenizer_json(true);
  const std::string config = MiniTokenizer::tokenizer_config_json();
  TokenizerFiles files;
  files.tokenizer_json = json;
  files.tokenizer_config_json = config;
  return Tokenizer::from_files(files);
}

std::string random_text(std::mt19937& rng, bool valid) {
  static const std::vector<std::string> parts = {"hello",
                                                 " world",
                                                 "'s",
                                                 "'S",
                                                 "'\xC5\xBF",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "1",
                                                 "23",
                                                 "->",
                                                 "==",
                                                 utf8(0x301),
                                                 "e" + utf8(0x301),
                                                 utf8(0x323) + utf8(0x307),
                                                 utf8(0x915) + utf8(0x94D) + utf8(0x937),
                                                 utf8(0xE2A) + utf8(0xE27) + utf8(0xE31),
                                                 utf8(0x4EBA),
                                                 utf8(0x1F642),
                                                 utf8(0xA0),
                                                 utf8(0x3000),
                                                 utf8(0x180E),
                                                 utf8(0x212B),
                                                 utf8(0x1100) + utf8(0x1161),
                                                 utf8(0xFB01),
                                                 "<|im_start|>",
                                                 "<|im_end|>",
                                                 "<think>",
                                                 "<think>more",
                                                 "<|",
                                                 "|>",
                                                 "a",
                                                 "b",
                                                 "c",
                                                 "_",
                                                 "\\"};
  const auto below = [&rng](std::size_t n) { return static_cast<std::uint32_t>(rng() % n); };
  std::string text;
  const std::size_t count = below(24);
  for (std::size_t i = 0; i < count; ++i) {
    switch (below(valid ? 6 : 8)) {
      case 0: {
        std::uint32_t cp = below(4) == 0 ? below(0x110000) : below(0x3100);
        if (cp >= 0xD800 && cp <= 0xDFFF) cp = 'x';
        text += utf8(cp);
        break;
      }
      case 6:
        text += static_cast<char>(below(256));
        break;
      case 7:
        if (!text.empty()) text.pop_back();
        break;
      default:
        text += parts[below(parts.size())];
    }
  }
  return text;
}

}  // namespace cairn::text::test
