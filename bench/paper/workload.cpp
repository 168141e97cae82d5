// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/workload.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "bench/paper/csv.hpp"

namespace cairn::paper {
namespace {

using engine::TraceRequest;
using Rng = std::mt19937_64;

// The standard distributions differ from one library to the next; these do not.
std::int32_t between(Rng& rng, std::int32_t low, std::int32_t high) {
  return low + static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(high - low + 1));
}
double unit(Rng& rng) { return static_cast<double>(rng() >> 11) * 0x1p-53; }
/// Near normal, mean 0 and variance 1: twelve uniform numbers.
double bell(Rng& rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += unit(rng);
  return sum;
}

/// Which group each request belongs to: kLive groups open at a time, a random one of them next, a
/// new one opened as one is used up.
std::vector<std::size_t> live_order(std::span<const std::size_t> group_sizes, Rng& rng) {
  std::vector<std::size_t> order, left(group_sizes.begin(), group_sizes.end()), open;
  std::size_t next = 0;
  for (;;) {
    while (open.size() < std::size_t(kLive) && next < left.size()) {
      if (left[next] > 0) open.push_back(next);
      ++next;
    }
    if (open.empty()) return order;
    const std::size_t pick = rng() % open.size();
    order.push_back(open[pick]);
    if (--left[open[pick]] > 0) continue;
    open[pick] = open.back();
    open.pop_back();
  }
}

/// A group's first request shows the whole shared prompt; later ones leave it at a depth.
class Groups {
 public:
  Groups(std::vector<std::int32_t> shared, std::vector<std::size_t> sizes)
      : shared_(std::move(shared)), sizes_(std::move(sizes)), first_(shared_.size(), -1) {}

  /// depth(group, shared tokens) of each request but a group's first; tail() tokens follow it.
  std::vector<TraceRequest> requests(
      Rng& rng, const std::function<std::int32_t(std::size_t, std::int32_t)>& depth,
      const std::function<std::int32_t()>& tail) {
    std::vector<TraceRequest> out;
    for (const std::size_t g : live_order(sizes_, rng)) {
      TraceRequest r;
      r.parent = first_[g];
      r.overlap = r.parent < 0 ? 0 : depth(g, shared_[g]);
      r.length = (r.parent < 0 ? shared_[g] : r.overlap) + tail();
      if (r.parent < 0) first_[g] = static_cast<std::int32_t>(out.size());
      out.push_back(r);
    }
    return out;
  }

 private:
  std::vector<std::int32_t> shared_;
  std::vector<std::size_t> sizes_;
  std::vector<std::int32_t> first_;  // request
};

}  // namespace

Workload from_trace(const std::string& name, const std::string& path) {
  const auto trace = engine::read_trace(path);
  Workload out{name, {}};
  for (std::size_t i = 0; i < trace->size(); ++i) {
    if ((*trace)[i].overlap < 0) throw LoadError(path + ": expected stated overlaps");
    out.requests.push_back((*trace)[i]);
  }
  return out;
}

Workload generate_documents(std::uint64_t seed) {
  constexpr int kDocuments = 115, kSections = 5;
  Rng rng(seed);
  std::vector<std::int32_t> lengths;
  std::vector<std::size_t> questions;
  std::vector<std::vector<std::int32_t>> sections;
  for (int d = 0; d < kDocuments; ++d) {
    const std::int32_t length = between(rng, 3'000, 9'000);
    lengths.push_back(length);
    questions.push_back(static_cast<std::size_t>(between(rng, 12, 24)));
    auto& ends = sections.emplace_back();
    for (int s = 1; s < kSections; ++s) {
      const double place = (s + 0.15 * bell(rng)) / kSections;
      ends.push_back(static_cast<std::int32_t>(std::clamp(place, 0.01, 0.99) * length));
    }
  }
  const auto depth = [&](std::size_t g, std::int32_t shared) {
    constexpr double kExcerpts = 0.25;
    return unit(rng) < kExcerpts ? sections[g][rng() % sections[g].size()] : shared;
  };
  const auto tail = [&] { return between(rng, 10, 120); };
  return {"Documents with questions (generated)",
          Groups(lengths, questions).requests(rng, depth, tail)};
}

Workload generate_queries(std::span<const std::int32_t> prompt_tokens, std::uint64_t seed) {
  constexpr std::size_t kQueries = 8;
  Rng rng(seed);
  Groups groups({prompt_tokens.begin(), prompt_tokens.end()},
                std::vector<std::size_t>(prompt_tokens.size(), kQueries));
  return {"System prompts with queries (lengths of 223 real ones)",
          groups.requests(
              rng, [](std::size_t, std::int32_t shared) { return shared; },
              [&] { return between(rng, 5, 200); })};
}

Workload generate_wide(std::uint64_t seed) {
  constexpr std::size_t kContexts = 60, kRequests = 40;
  struct Mode {
    double up_to;  // share of the requests, cumulated
    double centre, width;
  };
  constexpr Mode kModes[] = {
      {0.25, 0.2, 0.05}, {0.5, 0.45, 0.06}, {0.7, 0.7, 0.04}, {0.85, 0.92, 0.03}};
  Rng rng(seed);
  std::vector<std::int32_t> lengths;
  for (std::size_t c = 0; c < kContexts; ++c) lengths.push_back(between(rng, 6'000, 10'000));
  const auto depth = [&](std::size_t, std::int32_t shared) {
    const double pick = unit(rng);
    double place = unit(rng);
    for (const Mode& mode : kModes) {
      if (pick >= mode.up_to) continue;
      place = mode.centre + mode.width * bell(rng);
      break;
    }
    return static_cast<std::int32_t>(std::clamp(place, 0.001, 0.999) * shared);
  };
  Groups groups(lengths, std::vector<std::size_t>(kContexts, kRequests));
  return {"Wide multimodal overlaps (generated)",
          groups.requests(rng, depth, [&] { return between(rng, 20, 300); })};
}

std::vector<std::int32_t> read_prompt_lengths(const std::string& path) {
  const CsvTable table = read_csv(path, {"approx_tokens"});
  std::vector<std::int32_t> out;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& cell = table.rows[row][0];
    constexpr std::int64_t kMost = 1'000'000;
    const std::int64_t value = parse_count(cell).value_or(0);
    if (value < 1 || value > kMost) {
      throw LoadError(path + ": row " + std::to_string(row + 1) +
                      ": field 'approx_tokens': expected 1 to " + std::to_string(kMost));
    }
    out.push_back(static_cast<std::int32_t>(value));
  }
  return out;
}

namespace {

/// All prefixes of earlier prompts in tokens of four bytes, each with the first prompt that has it.
class Prefixes {
 public:
  TraceRequest add(const std::string& prompt) {
    TraceRequest r;
    r.overlap = 0;
    std::uint64_t node = 0;
    const auto row = rows_++;
    for (std::size_t at = 0; at < prompt.size(); at += 4) {
      ++r.length;
      std::uint64_t token = 0;
      for (const char c : prompt.substr(at, 4)) token = token << 8 | static_cast<unsigned char>(c);
      const auto [entry, fresh] =
          nodes_.try_emplace(Key{node, token}, Node{nodes_.size() + 1, row});
      if (!fresh) {
        r.overlap = r.length;
        r.parent = entry->second.row;
      }
      node = entry->second.id;
    }
    return r;
  }

 private:
  struct Key {
    std::uint64_t node, token;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const {
      return std::hash<std::uint64_t>()(k.node * 0x9E37'79B9'7F4A'7C15 + k.token);
    }
  };
  struct Node {
    std::uint64_t id;
    std::int32_t row;
  };
  std::unordered_map<Key, Node, Hash> nodes_;
  std::int32_t rows_ = 0;
};

}  // namespace

Workload from_documents(const std::string& name, std::span<const Document> documents,
                        std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::size_t> sizes, asked(documents.size(), 0);
  for (const Document& d : documents) sizes.push_back(d.questions.size());
  Workload out{name, {}};
  Prefixes prefixes;
  for (const std::size_t d : live_order(sizes, rng)) {
    const std::string prompt = documents[d].text + "\n\n" + documents[d].questions[asked[d]++];
    out.requests.push_back(prefixes.add(prompt));
  }
  return out;
}

}  // namespace cairn::paper
