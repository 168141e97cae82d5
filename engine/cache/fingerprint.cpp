// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/fingerprint.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.hpp"

namespace cairn::engine {
namespace {

// A value may not look like the end of its line.
std::string one_line(std::string value) {
  std::replace(value.begin(), value.end(), '\n', ' ');
  return value;
}

std::vector<std::pair<std::string, std::string>> parts_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> parts;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    parts.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return parts;
}

}  // namespace

std::string fingerprint_part(std::string_view text, std::string_view name) {
  for (const auto& [key, value] : parts_of(text)) {
    if (key == name) return value;
  }
  return {};
}

std::string Fingerprint::text() const {
  const std::pair<const char*, std::string> parts[] = {
      {"weights", hex_digits(weights)},
      {"config", hex_digits(config)},
      {"tokenizer", hex_digits(tokenizer)},
      {"weight_format", weight_format},
      {"kv", kv},
      {"activations", activations},
      {"isa", isa},
      {"device", device},
      {"gemm", gemm},
      {"numerics", std::to_string(numerics)},
  };
  std::string text;
  for (const auto& [name, value] : parts) text += std::string(name) + "=" + one_line(value) + "\n";
  return text;
}

FingerprintHash Fingerprint::hash() const {
  const std::string all = text();
  FingerprintHash out;
  for (std::size_t half = 0; half < 2; ++half) {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits_withSeed(all.data(), all.size(), half));
    std::memcpy(out.data() + 16 * half, bytes.digest, 16);
  }
  return out;
}

std::string fingerprint_difference(std::string_view stored, std::string_view here) {
  const auto now = parts_of(here);
  const auto before_list = parts_of(stored);
  std::map<std::string, std::string> before(before_list.begin(), before_list.end());
  std::string out;
  const auto add = [&out](const std::string& name, const std::string& was, const std::string& is) {
    if (!out.empty()) out += ", ";
    out += name;
    out += " was " + was + ", is " + is + " here";
  };
  for (const auto& [name, value] : now) {
    const auto it = before.find(name);
    if (it == before.end()) {
      add(name, "not known", value);
      continue;
    }
    if (it->second != value) add(name, it->second, value);
    before.erase(it);
  }
  for (const auto& [name, value] : before) add(name, value, "unknown");
  return out;
}

std::uint64_t hash_bytes(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace cairn::engine
