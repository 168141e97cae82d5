// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_text.hpp"

#include <algorithm>
#include <utility>

namespace cairn::text::jinja {

OriginText::OriginText(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), origin});
}

void OriginText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void OriginText::append(const OriginText& other) { append(other, 0, other.size()); }

void OriginText::append(const OriginText& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](std::size_t at, const Run& r) { return at < r.end; });
  for (std::size_t at = begin; at < end; ++run) {
    const std::size_t stop = std::min(end, run->end);
    append(other.view().substr(at, stop - at), run->origin);
    at = stop;
  }
}

void OriginText::append_like(std::string_view bytes, const OriginText& other, std::size_t like) {
  append(bytes, other.origin_at(like));
}

OriginText OriginText::slice(std::size_t begin, std::size_t end) const {
  OriginText out;
  out.append(*this, begin, end);
  return out;
}

Origin OriginText::origin_at(std::size_t at) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), at,
                                    [](std::size_t a, const Run& r) { return a < r.end; });
  return run == runs_.end() ? Origin::data : run->origin;
}

bool OriginText::all_template(std::size_t begin, std::size_t end) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), begin,
                                    [](std::size_t a, const Run& r) { return a < r.end; });
  return begin < end && run != runs_.end() && run->origin == Origin::from_template &&
         run->end >= end;
}

std::size_t OriginText::length() const {
  return static_cast<std::size_t>(std::count_if(bytes_.begin(), bytes_.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::size_t code_point_bytes(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t want = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(want, text.size() - at);
}

std::uint32_t code_point_at(std::string_view text, std::size_t at) {
  const std::size_t n = code_point_bytes(text, at);
  const auto lead = static_cast<unsigned char>(text[at]);
  if (n == 1) return lead;
  std::uint32_t cp = lead & (0x7FU >> n);
  for (std::size_t k = 1; k < n; ++k) {
    cp = (cp << 6) | (static_cast<unsigned char>(text[at + k]) & 0x3FU);
  }
  return cp;
}

std::vector<std::size_t> code_point_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
    offsets.push_back(at);
  }
  offsets.push_back(text.size());
  return offsets;
}

void append_code_point(std::string& out, std::uint32_t cp) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((cp >> shift) & 0x3F)); };
  if (cp < 0x80) {
    out += static_cast<char>(cp);
  } else if (cp < 0x800) {
    out += static_cast<char>(0xC0 | (cp >> 6));
    tail(0);
  } else if (cp < 0x10000) {
    out += static_cast<char>(0xE0 | (cp >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (cp >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_space(std::uint32_t cp) {
  return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 ||
         cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
         cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

}  // namespace cairn::text::jinja
