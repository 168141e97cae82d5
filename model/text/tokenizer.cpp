// SPDX-License-Identifier: Apache-2.0
#include "model/text/tokenizer.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "model/text/detokenizer.hpp"
#include "model/text/tokenizer_impl.hpp"
#include "model/text/unicode.hpp"

namespace cairn::text {
namespace {

// Bytes [begin, end) of the input in which added tokens may be recognised; ascending, neighbours
// joined.
struct Range {
  std::size_t begin;
  std::size_t end;
};

std::vector<Range> allowed_ranges(std::span<const Segment> segments) {
  std::vector<Range> ranges;
  std::size_t at = 0;
  for (const Segment& segment : segments) {
    const std::size_t end = at + segment.text.size();
    if (segment.special_allowed && end > at) {
      if (!ranges.empty() && ranges.back().end == at) {
        ranges.back().end = end;
      } else {
        ranges.push_back({at, end});
      }
    }
    at = end;
  }
  return ranges;
}

// One call of encode: carries what the steps share.
class Encoding {
 public:
  Encoding(const Tokenizer::Impl& impl, std::vector<Range> allowed, TokenMap* map)
      : impl_(impl), allowed_(std::move(allowed)), map_(map) {}

  std::vector<std::int32_t> run(std::string_view input) {
    // Byte-level tokens are 3 to 4 bytes long on average.
    ids_.reserve(input.size() / 3 + 16);
    std::string repaired;
    std::string_view text = input;
    const bool ascii = is_ascii(input);
    if (!ascii && !json::valid_utf8(input)) {
      repaired = repair_utf8(input, &repairs_);
      text = repaired;
    }
    nfc_ = impl_.nfc && !ascii;
    cut(text);
    if (map_) {
      map_->begin.push_back(input.size());
      map_->edge.push_back(1);
    }
    return std::move(ids_);
  }

 private:
  bool is_allowed(std::size_t begin, std::size_t end) const {
    const auto after = std::upper_bound(allowed_.begin(), allowed_.end(), begin,
                                        [](std::size_t b, const Range& r) { return b < r.begin; });
    return after != allowed_.begin() && end <= (after - 1)->end;
  }

  // Added tokens of the raw text.
  void cut(std::string_view text) {
    if (allowed_.empty() || impl_.raw.empty()) return normalise(text, 0);
    const auto allowed = [this](std::size_t begin, std::size_t end) {
      return is_allowed(repairs_.find(begin).at, repairs_.find(end).at);
    };
    for (std::size_t at = 0; at < text.size();) {
      const auto match = impl_.raw.find(text, at, allowed);
      normalise(text.substr(at, match.begin - at), at);
      if (match.id >= 0) emit_added(match.id, repairs_.find(match.begin).at);
      at = match.end;
    }
  }

  // `text` starts at byte `base` of the repaired input.
  void normalise(std::string_view text, std::size_t base) {
    if (text.empty()) return;
    base_ = base;
    normal_.clear();
    std::string changed;
    if (nfc_ && needs_nfc(text)) {
      changed = to_nfc(text, &normal_);
      text = changed;
    }
    if (allowed_.empty() || impl_.normalized.empty()) return pieces(text, 0);
    const auto allowed = [this](std::size_t begin, std::size_t end) {
      const OffsetMap::Place first = origin(begin);
      const OffsetMap::Place last = origin(end);
      return first.exact && last.exact && is_allowed(first.at, last.at);
    };
    for (std::size_t at = 0; at < text.size();) {
      const auto match = impl_.normalized.find(text, at, allowed);
      pieces(text.substr(at, match.begin - at), at);
      if (match.id >= 0) emit_added(match.id, origin(match.begin).at);
      at = match.end;
    }
  }

  // `text` starts at byte `base` of the normalised part.
  void pieces(std::string_view text, std::size_t base) {
    if (text.empty()) return;
    ends_.clear();
    impl_.pretokenizer->split(text, ends_);
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      const std::size_t first = ids_.size();
      impl_.bpe->encode(text.substr(begin, end - begin), scratch_, ids_);
      if (map_) map_piece(first, base + begin);
      begin = end;
    }
  }

  void map_piece(std::size_t first, std::size_t at) {
    for (std::size_t i = first; i < ids_.size(); ++i) {
      const OffsetMap::Place place = origin(at);
      map_->begin.push_back(place.at);
      map_->edge.push_back(i == first && place.exact ? 1 : 0);
      at += impl_.vocabulary->bytes(ids_[i]).size();
    }
  }

  void emit_added(std::int32_t id, std::size_t at) {
    ids_.push_back(id);
    if (!map_) return;
    map_->begin.push_back(at);
    map_->edge.push_back(1);
  }

  // Where a byte of the normalised part comes from in the input.
  OffsetMap::Place origin(std::size_t at) const {
    const OffsetMap::Place before_nfc = normal_.find(at);
    const OffsetMap::Place place = repairs_.find(base_ + before_nfc.at);
    return {place.at, place.exact && before_nfc.exact};
  }

  const Tokenizer::Impl& impl_;
  const std::vector<Range> allowed_;
  TokenMap* map_;
  bool nfc_ = false;
  OffsetMap repairs_;
  OffsetMap normal_;
  std::size_t base_ = 0;
  std::vector<std::size_t> ends_;
  Bpe::Scratch scratch_;
  std::vector<std::int32_t> ids_;
};

}  // namespace

std::size_t TokenMap::tokens_before_edge(std::size_t byte) const {
  const auto after = std::upper_bound(begin.begin(), begin.end(), byte);
  auto token = static_cast<std::size_t>(after - begin.begin());
  while (token > 0 && !edge[token - 1]) --token;
  return token == 0 ? 0 : token - 1;
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::from_files(const TokenizerFiles& files) {
  return std::make_shared<const Tokenizer>(build_tokenizer(files));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, bool parse_special) const {
  const Segment segment{utf8, parse_special};
  return encode_segments({&segment, 1});
}

std::vector<std::int32_t> Tokenizer::encode_segments(std::span<const Segment> segments,
                                                     TokenMap* map) const {
  if (map) *map = {};
  std::string joined;
  std::string_view text;
  if (segments.size() == 1) {
    text = segments[0].text;
  } else {
    std::size_t bytes = 0;
    for (const Segment& segment : segments) bytes += segment.text.size();
    joined.reserve(bytes);
    for (const Segment& segment : segments) joined += segment.text;
    text = joined;
  }
  return Encoding(*impl_, allowed_ranges(segments), map).run(text);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text;
  Utf8Stream stream;
  for (const std::int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    stream.push(id_to_bytes(id), text);
  }
  stream.flush(text);
  return text;
}

std::size_t Tokenizer::last_pretoken_edge(std::string_view utf8, std::size_t offset) const {
  const Segment segment{utf8, false};
  TokenMap map;
  (void)encode_segments({&segment, 1}, &map);
  return map.begin[map.tokens_before_edge(offset)];
}

std::string_view Tokenizer::id_to_bytes(std::int32_t id) const {
  return impl_->vocabulary->bytes(id);
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view bytes) const {
  for (const AddedToken& token : impl_->added) {
    if (token.content == bytes) return token.id;
  }
  const std::int32_t id = impl_->vocabulary->find(bytes);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->special[static_cast<std::size_t>(id)];
}

std::int32_t Tokenizer::vocab_size() const { return impl_->vocabulary->size(); }
const std::vector<AddedToken>& Tokenizer::added_tokens() const { return impl_->added; }
const std::vector<std::int32_t>& Tokenizer::eos_ids() const { return impl_->eos_ids; }
std::optional<std::int32_t> Tokenizer::pad_id() const { return impl_->pad_id; }
const std::string& Tokenizer::chat_template() const { return impl_->chat_template; }

}  // namespace cairn::text
