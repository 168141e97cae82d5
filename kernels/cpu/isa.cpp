// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "kernels/cpu/peaks.hpp"

namespace cairn::kernels {
namespace {

constexpr int kTrials = 20;            // the best counts: an interrupted one is longer
constexpr std::int64_t kRounds = 500;  // some 2 us
// Widening costs fp32 instructions about that share of their time.
constexpr double kWidening = 0.1;

bool measure_bf16_dots() {
  const auto speed = [](auto run) {
    const auto begin = std::chrono::steady_clock::now();
    const double operations = run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return operations / std::max(taken.count(), 1e-9);
  };
  double dots = 0;
  double multiply_adds = 0;
  for (int i = 0; i < kTrials; ++i) {
    dots = std::max(dots, speed([] { return run_bf16_dots(kRounds); }));
    multiply_adds =
        std::max(multiply_adds, speed([] { return run_multiply_adds(Isa::avx512, kRounds); }));
  }
  return dots >= (1 - kWidening) * multiply_adds;
}

}  // namespace

const char* to_string(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    default:
      return "portable";
  }
}

Result<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (name == to_string(isa)) return isa;
  }
  return Error{
      ErrorCode::bad_request,
      "unknown instruction set '" + std::string(name) + "'; known are portable, avx2 and avx512",
      "isa"};
}

bool isa_supported(Isa isa) {
  // These builtins also ask the operating system whether it saves the registers.
  __builtin_cpu_init();
  switch (isa) {
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             isa_supported(Isa::avx2);
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    default:
      return true;
  }
}

bool bf16_dot_supported() {
  __builtin_cpu_init();
  return isa_supported(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
}

bool bf16_dot_preferred() {
  static const bool preferred = bf16_dot_supported() && measure_bf16_dots();
  return preferred;
}

Isa detect_isa() { return supported_isas().back(); }

std::vector<Isa> supported_isas() {
  std::vector<Isa> levels;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa)) levels.push_back(isa);
  }
  return levels;
}

Result<Isa> choose_isa(std::string_view name) {
  if (name.empty()) {
    const char* wanted = std::getenv("CAIRN_ISA");
    if (wanted == nullptr || *wanted == '\0') return detect_isa();
    name = wanted;
  }
  Result<Isa> isa = parse_isa(name);
  if (isa.ok() && !isa_supported(*isa)) {
    return Error{ErrorCode::unsupported,
                 "this machine does not support '" + std::string(name) + "'; it supports up to " +
                     to_string(detect_isa()),
                 "isa"};
  }
  return isa;
}

}  // namespace cairn::kernels
