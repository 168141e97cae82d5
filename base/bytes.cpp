// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace cairn {
namespace {

struct SizeUnit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array<SizeUnit, 18> kUnits{{{"", 1},
                                           {"b", 1},
                                           {"k", kKi},
                                           {"kib", kKi},
                                           {"kb", 1e3},
                                           {"m", kKi* kKi},
                                           {"mib", kKi* kKi},
                                           {"mb", 1e6},
                                           {"g", kKi* kKi* kKi},
                                           {"gib", kKi* kKi* kKi},
                                           {"gb", 1e9},
                                           {"t", kKi* kKi* kKi* kKi},
                                           {"tib", kKi* kKi* kKi* kKi},
                                           {"tb", 1e12},
                                           {"byte", 1},
                                           {"bytes", 1},
                                           {"ki", kKi},
                                           {"mi", kKi* kKi}}};

std::string lower_without_blanks(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == ' ') continue;
    out += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const std::string lower = lower_without_blanks(text);
  double number = 0;
  const auto [end, ec] = std::from_chars(lower.data(), lower.data() + lower.size(), number);
  const std::string unit(end, lower.data() + lower.size());
  if (ec == std::errc{} && std::isfinite(number) && number >= 0) {
    for (const SizeUnit& u : kUnits) {
      if (u.name != unit) continue;
      const double bytes = number * u.factor;
      if (bytes < 9.2e18) return static_cast<std::uint64_t>(std::llround(bytes));
    }
  }
  return Error{ErrorCode::bad_request,
               "'" + std::string(text) +
                   "' is no size: expected a number with an optional unit, "
                   "such as 4GiB, 512M or 2GB",
               ""};
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t i = 0;
  while (value >= kKi && i + 1 < names.size()) {
    value /= kKi;
    ++i;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), i == 0 ? "%.0f %s" : "%.2f %s", value, names[i]);
  return text.data();
}

std::string hex_digits(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace cairn
