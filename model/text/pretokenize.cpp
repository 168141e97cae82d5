// SPDX-License-Identifier: Apache-2.0
#include "model/text/pretokenize.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.hpp"
#include "model/text/unicode.hpp"

namespace cairn::text {

const std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// One piece at a time, alternatives in the order of the pattern. kWord: what a word is made of.
template <std::uint8_t kWord>
class QwenScanner {
 public:
  explicit QwenScanner(std::string_view text) : text_(text), classes_(char_classes()) {}

  void run(std::vector<std::size_t>& ends) const {
    for (std::size_t at = 0; at < text_.size();) {
      at = next(at);
      ends.push_back(at);
    }
  }

 private:
  struct Char {
    std::uint8_t bits;
    std::uint8_t length;
  };
  static constexpr std::uint8_t kNotSymbol = kSpace | kLetter | kNumber | kWord;

  Char look(std::size_t at) const {
    const auto lead = static_cast<unsigned char>(text_[at]);
    if (lead < 0x80) return {classes_[lead], 1};
    const CodePoint c = code_point(text_.data() + at);
    return {classes_[c.value], static_cast<std::uint8_t>(c.length)};
  }
  bool more(std::size_t at) const { return at < text_.size(); }

  std::size_t word(std::size_t at) const {
    while (more(at)) {
      const Char c = look(at);
      if (!(c.bits & kWord)) break;
      at += c.length;
    }
    return at;
  }

  std::size_t symbols(std::size_t at) const {
    const std::size_t start = at;
    while (more(at)) {
      const Char c = look(at);
      if (c.bits & kNotSymbol) break;
      at += c.length;
    }
    while (at > start && more(at) && (text_[at] == '\r' || text_[at] == '\n')) ++at;
    return at;
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d), the apostrophe at `at`; the long s (U+017F) folds to s.
  std::size_t contraction(std::size_t at) const {
    const auto lower = [this](std::size_t i) {
      return more(i)
                 ? static_cast<char>(text_[i] >= 'A' && text_[i] <= 'Z' ? text_[i] + 32 : text_[i])
                 : '\0';
    };
    const char first = lower(at + 1);
    const char second = lower(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    if (text_.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
    return at;
  }

  std::size_t whitespace(std::size_t at) const {
    std::size_t end = at;
    std::size_t last = at;      // start of the last character
    std::size_t line_end = at;  // after the last \r or \n
    while (more(end)) {
      const Char c = look(end);
      if (!(c.bits & kSpace)) break;
      last = end;
      end += c.length;
      if (c.bits & kNewline) line_end = end;
    }
    if (line_end > at) return line_end;
    // The last blank before a word is left for that word, unless it is all there is.
    return more(end) && last > at ? last : end;
  }

  std::size_t next(std::size_t at) const {
    const Char c = look(at);
    if (c.bits & kWord) return word(at + c.length);
    if (text_[at] == '\'') {
      const std::size_t end = contraction(at);
      if (end > at) return end;
    }
    const std::size_t behind = at + c.length;
    if (!(c.bits & (kNewline | kNumber | kLetter))) {
      const std::size_t end = word(behind);
      if (end > behind) return end;
    }
    if (c.bits & kNumber) return behind;
    if (!(c.bits & kSpace)) return symbols(at);
    if (text_[at] == ' ') {
      const std::size_t end = symbols(behind);
      if (end > behind) return end;
    }
    return whitespace(at);
  }

  std::string_view text_;
  const std::uint8_t* classes_;
};

// PCRE2 counts U+180E as white space, which Unicode does since 6.3 no longer, and the engine that
// the model's tokenizer was made with follows Unicode: \s and \S are written out.
std::string without_space_escapes(std::string_view pattern) {
  constexpr std::string_view kIn =
      R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  constexpr std::string_view kOut =
      R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char e = pattern[++i];
      if (e == 's' || e == 'S') {
        if (!in_class) out += '[';
        out += e == 's' ? kIn : kOut;
        if (!in_class) out += ']';
      } else {
        out += c;
        out += e;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* p) const {
    kFree(p);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

constexpr std::uint32_t kMatchLimit = 2'000'000;    // steps in one match
constexpr int kMaxGiveUps = 16;                     // then the rest of the text is one piece
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;  // its memory
constexpr std::size_t kJitStackBytes = 1024 * 1024;

}  // namespace

struct Pretokenizer::Regex {
  std::unique_ptr<pcre2_code, Free<pcre2_code_free>> code;
  bool jit = false;

  explicit Regex(std::string_view source) {
    const std::string pattern = without_space_escapes(source);
    int error = 0;
    PCRE2_SIZE at = 0;
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                             nullptr));
    if (!code) {
      char text[256] = {};
      pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
      throw LoadError("does not compile: " + std::string(text));
    }
    jit = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
  }

  void split(std::string_view text, std::vector<std::size_t>& ends) const {
    const MatchData data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    const MatchContext context(pcre2_match_context_create(nullptr));
    const JitStack stack(jit ? pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)
                             : nullptr);
    if (!data || !context) {  // out of memory: the whole text is one piece
      if (!text.empty()) ends.push_back(text.size());
      return;
    }
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());

    std::size_t piece = 0;  // where the text not yet handed out begins
    int give_ups = 0;
    for (std::size_t at = 0; at < text.size() && give_ups < kMaxGiveUps;) {
      int rc = PCRE2_ERROR_JIT_STACKLIMIT;
      if (jit)
        rc = pcre2_jit_match(code.get(), subject, text.size(), at, 0, data.get(), context.get());
      if (rc < PCRE2_ERROR_NOMATCH) {
        rc = pcre2_match(code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         data.get(), context.get());
      }
      if (rc == PCRE2_ERROR_NOMATCH) break;
      const bool gave_up = rc < 0;
      const std::size_t begin = gave_up ? at : found[0];
      std::size_t end = gave_up ? at : found[1];
      if (begin > piece) ends.push_back(begin);  // text between two matches is a piece, too
      if (gave_up) {
        ++give_ups;
        end = at + code_point(text.data() + at).length;
        ends.push_back(end);
      } else if (end > begin) {
        ends.push_back(end);
      } else {  // an empty match: look for the next one behind the next character
        piece = begin;
        if (begin >= text.size()) break;
        at = begin + code_point(text.data() + begin).length;
        continue;
      }
      piece = at = end;
    }
    if (piece < text.size()) ends.push_back(text.size());
  }
};

Pretokenizer::Pretokenizer(std::string_view pattern, Engine engine) {
  if (engine == Engine::automatic && pattern == kQwen35Pattern) scanner_ = Scanner::qwen35;
  if (engine == Engine::automatic && pattern == kQwen2Pattern) scanner_ = Scanner::qwen2;
  if (scanner_ == Scanner::none) regex_ = std::make_unique<const Regex>(pattern);
}

Pretokenizer::~Pretokenizer() = default;

void Pretokenizer::split(std::string_view text, std::vector<std::size_t>& ends) const {
  switch (scanner_) {
    case Scanner::qwen35:
      QwenScanner<kLetter | kMark>(text).run(ends);
      break;
    case Scanner::qwen2:
      QwenScanner<kLetter>(text).run(ends);
      break;
    case Scanner::none:
      regex_->split(text, ends);
      break;
  }
}

}  // namespace cairn::text
