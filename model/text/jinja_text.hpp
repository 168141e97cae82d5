// SPDX-License-Identifier: Apache-2.0
// Text that remembers, byte by byte, whether the template or the data wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text::jinja {

enum class Origin : std::uint8_t { data, from_template };

/// UTF-8 bytes with their origin. Every operation of the interpreter builds its result from
/// stretches of its inputs, so that the origin of a byte can only be copied, never invented.
class OriginText {
 public:
  struct Run {
    std::size_t end;  // offset behind the run's last byte
    Origin origin;
  };

  OriginText() = default;
  OriginText(std::string bytes, Origin origin);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Ends ascend, neighbours differ, the last end is size(); none when empty.
  const std::vector<Run>& runs() const { return runs_; }
  std::size_t memory() const { return bytes_.capacity() + runs_.capacity() * sizeof(Run); }

  void append(std::string_view bytes, Origin origin);
  void append(const OriginText& other);
  /// Bytes [begin, end) of `other`.
  void append(const OriginText& other, std::size_t begin, std::size_t end);
  /// `bytes` with the origin that byte `like` of `other` has (for case changes and escapes).
  void append_like(std::string_view bytes, const OriginText& other, std::size_t like);
  OriginText slice(std::size_t begin, std::size_t end) const;
  Origin origin_at(std::size_t at) const;
  bool all_template(std::size_t begin, std::size_t end) const;

  /// Number of code points.
  std::size_t length() const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

/// Bytes of the code point that starts at `at` (1 for a stray byte).
std::size_t code_point_bytes(std::string_view text, std::size_t at);
/// The code point that starts at `at`.
std::uint32_t code_point_at(std::string_view text, std::size_t at);
/// Byte offset of every code point, and the size as last entry.
std::vector<std::size_t> code_point_offsets(std::string_view text);
void append_code_point(std::string& out, std::uint32_t code_point);
/// White space as Python's str methods see it.
bool is_space(std::uint32_t code_point);

}  // namespace cairn::text::jinja
