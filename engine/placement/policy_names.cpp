// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/policy_names.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/placement/forest_policy.hpp"
#include "engine/placement/rules.hpp"
#include "engine/placement/rules_marconi.hpp"
#include "engine/placement/spacings.hpp"

namespace cairn::engine {
namespace {

using Made = std::unique_ptr<CachePolicy>;
enum class Argument : std::uint8_t { none, checkpoints, block, alpha };

struct Rule {
  const char* name;
  Argument argument;
  bool takes_branch;  // "+branch" may follow
  Made (*make)(const PolicyName& name, const std::string& spelling);
};

Made nothing(const PolicyName&, const std::string& spelling) {
  return std::make_unique<NothingPolicy>(spelling);
}

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& positions) {
  std::vector<std::int32_t> out;
  out.reserve(positions.size());
  for (const std::int64_t p : positions) out.push_back(static_cast<std::int32_t>(p));
  return out;
}

template <Spacing kSpacing>
Made spaced(const PolicyName& name, const std::string& spelling) {
  return std::make_unique<SpacedPolicy>(
      spelling, name.branch, Touch::resumed, [count = name.count](std::int32_t length) {
        return narrowed(spaced_positions(kSpacing, length, count));
      });
}

std::vector<std::int32_t> multiples(std::int32_t step, std::int32_t length) {
  std::vector<std::int32_t> out;
  for (std::int64_t p = step; p < length; p += step) out.push_back(static_cast<std::int32_t>(p));
  return out;
}

// Every block of a path is used by whoever comes along it.
Made block(const PolicyName& name, const std::string& spelling) {
  return std::make_unique<SpacedPolicy>(
      spelling, name.branch, Touch::path,
      [step = static_cast<std::int32_t>(name.count)](std::int32_t length) {
        return multiples(step, length);
      });
}

std::int32_t root_of(std::int32_t length) {
  return static_cast<std::int32_t>(std::floor(std::sqrt(static_cast<double>(length))));
}

Made root_spaced(const PolicyName& name, const std::string& spelling) {
  return std::make_unique<SpacedPolicy>(
      spelling, name.branch, Touch::resumed,
      [](std::int32_t length) { return multiples(std::max(root_of(length), 1), length); });
}

template <bool kBranch, Touch kTouch>
Made ends(const PolicyName&, const std::string& spelling) {
  return std::make_unique<RulePolicy>(spelling, kBranch, kTouch);
}

Made planned(const PolicyName& name, const std::string& spelling) {
  return std::make_unique<PlannedPolicy>(spelling, name.branch);
}

Made marconi(const PolicyName& name, const std::string& spelling) {
  if (name.has_argument) return std::make_unique<MarconiPolicy>(spelling, name.alpha);
  return std::make_unique<TunedMarconiPolicy>(spelling);
}

Made forest(const PolicyName&, const std::string&) { return std::make_unique<ForestPolicy>(); }

constexpr Rule kRules[] = {
    {"none", Argument::none, false, nothing},
    {"kv_only", Argument::none, false, nothing},
    {"balanced", Argument::checkpoints, true, spaced<Spacing::balanced>},
    {"block", Argument::block, true, block},
    {"log", Argument::checkpoints, true, spaced<Spacing::log>},
    {"log_end", Argument::checkpoints, true, spaced<Spacing::log_end>},
    {"sqrt", Argument::checkpoints, true, spaced<Spacing::sqrt>},
    {"sqrt_end", Argument::checkpoints, true, spaced<Spacing::sqrt_end>},
    {"sqrt_spacing", Argument::none, true, root_spaced},
    {"last", Argument::none, false, ends<false, Touch::path>},
    {"branch", Argument::none, false, ends<true, Touch::resumed>},
    {"branch_path", Argument::none, false, ends<true, Touch::path>},
    {"marconi", Argument::none, false, marconi},
    {"marconi", Argument::alpha, false, marconi},
    {"dp", Argument::checkpoints, true, planned},
    {"dp_frac", Argument::checkpoints, true, planned},
    {"forest", Argument::none, false, forest},
};

const char* placeholder(Argument argument) {
  switch (argument) {
    case Argument::checkpoints:
      return ":M";
    case Argument::block:
      return ":B";
    case Argument::alpha:
      return ":ALPHA";
    case Argument::none:
      return "";
  }
  return "";
}

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && at == end;
}

bool read_argument(Argument argument, std::string_view text, PolicyName& name) {
  if (argument == Argument::alpha) {
    return read_number(text, name.alpha) && std::isfinite(name.alpha) && name.alpha >= 0;
  }
  const std::int64_t most = argument == Argument::block ? kMaxPolicyBlock : kMaxCheckpoints;
  return read_number(text, name.count) && name.count >= 1 && name.count <= most;
}

Error unknown(std::string_view spelling) {
  return {ErrorCode::bad_request,
          "unknown policy '" + std::string(spelling.substr(0, 64)) + "': expected " +
              policy_spellings(),
          "policy"};
}

struct Parsed {
  PolicyName name;
  const Rule* rule = nullptr;  // null: unknown
};

Parsed parse(std::string_view spelling) {
  constexpr std::string_view kBranch = "+branch";
  Parsed out;
  std::string_view rest = spelling;
  if (rest.ends_with(kBranch)) {
    out.name.branch = true;
    rest.remove_suffix(kBranch.size());
  }
  const std::size_t colon = rest.find(':');
  out.name.rule = rest.substr(0, colon);
  out.name.has_argument = colon != std::string_view::npos;
  for (const Rule& rule : kRules) {
    if (out.name.rule != rule.name) continue;
    if (out.name.has_argument != (rule.argument != Argument::none)) continue;
    if (out.name.branch && !rule.takes_branch) continue;
    if (out.name.has_argument && !read_argument(rule.argument, rest.substr(colon + 1), out.name)) {
      continue;
    }
    out.rule = &rule;
  }
  return out;
}

}  // namespace

std::string policy_spellings() {
  std::string text;
  std::string branched;
  for (const Rule& rule : kRules) {
    const std::string shown = std::string(rule.name) + placeholder(rule.argument);
    text += (text.empty() ? "" : ", ") + shown;
    if (rule.takes_branch) branched += (branched.empty() ? "" : ", ") + shown + "+branch";
  }
  return text + "; " + branched + "; M from 1 to " + std::to_string(kMaxCheckpoints) +
         ", B from 1 to " + std::to_string(kMaxPolicyBlock) + ", ALPHA a decimal number from 0";
}

Result<PolicyName> parse_policy_name(std::string_view spelling) {
  Parsed parsed = parse(spelling);
  if (parsed.rule == nullptr) return unknown(spelling);
  return std::move(parsed.name);
}

Result<std::unique_ptr<CachePolicy>> make_cache_policy(std::string_view spelling) {
  const Parsed parsed = parse(spelling);
  if (parsed.rule == nullptr) return unknown(spelling);
  return parsed.rule->make(parsed.name, std::string(spelling));
}

}  // namespace cairn::engine
