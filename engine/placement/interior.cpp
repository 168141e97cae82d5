// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/interior.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cairn::engine {
namespace {

constexpr std::size_t kRemembered = 256;
constexpr std::size_t kFewest = 8;  // samples, below them: uniform only
constexpr double kForget = 0.97;
constexpr double kUniformLeast = 0.05;
constexpr double kBins = 64;   // of a prompt, for the densities
constexpr double kSmooth = 1;  // uniform samples mixed into each histogram

}  // namespace

double InteriorMixture::placed(const Split& split, int component, std::int32_t length) {
  switch (component) {
    case 0:
      return split.position;
    case 1:
      return static_cast<double>(split.position) / split.length * length;
    default:
      return length - (split.length - split.position);
  }
}

// Probability of the bin around `position`, among positions in (start, length).
double InteriorMixture::density(int component, std::int32_t start, std::int32_t position,
                                std::int32_t length) const {
  const double width = length / kBins;
  const double uniform = std::min(1.0, width / std::max(1.0, static_cast<double>(length - start)));
  if (component == kUniform) return uniform;
  double inside = 0, near = 0;
  for (const Split& s : splits_) {
    const double x = placed(s, component, length);
    if (x <= start || x >= length) continue;
    inside += 1;
    if (std::abs(x - position) <= width / 2) near += 1;
  }
  return (near + kSmooth * uniform) / (inside + kSmooth);
}

bool InteriorMixture::knows() const { return splits_.size() >= kFewest; }

void InteriorMixture::first_split(std::int32_t start, std::int32_t position, std::int32_t length) {
  if (knows()) {
    for (int c = 0; c <= kUniform; ++c) {
      double& loss = loss_[static_cast<std::size_t>(c)];
      loss = kForget * loss - std::log(density(c, start, position, length));
    }
  }
  enter({position, length});
  if (splits_.size() < kRemembered) {
    splits_.push_back({position, length});
  } else {
    leave(std::exchange(splits_[next_], {position, length}));
    next_ = (next_ + 1) % kRemembered;
  }
}

// placed() grows with it, whatever the prompt's length.
bool InteriorMixture::before(int component, const Split& a, const Split& b) {
  switch (component) {
    case 0:
      return a.position < b.position;
    case 1:
      return static_cast<double>(a.position) / a.length <
             static_cast<double>(b.position) / b.length;
    default:
      return a.length - a.position > b.length - b.position;
  }
}

void InteriorMixture::enter(const Split& split) {
  for (int c = 0; c < kUniform; ++c) {
    std::vector<Split>& sorted = sorted_[static_cast<std::size_t>(c)];
    const auto at =
        std::upper_bound(sorted.begin(), sorted.end(), split,
                         [c](const Split& a, const Split& b) { return before(c, a, b); });
    sorted.insert(at, split);
  }
}

void InteriorMixture::leave(const Split& split) {
  for (int c = 0; c < kUniform; ++c) {
    std::vector<Split>& sorted = sorted_[static_cast<std::size_t>(c)];
    const auto less = [c](const Split& a, const Split& b) { return before(c, a, b); };
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), split, less);
    sorted.erase(std::find(first, last, split));
  }
}

std::array<double, 4> InteriorMixture::weights() const {
  std::array<double, 4> w{0, 0, 0, 1};
  if (!knows()) return w;
  const double least = *std::min_element(loss_.begin(), loss_.end());
  double sum = 0;
  for (std::size_t c = 0; c < 4; ++c) sum += w[c] = std::exp(least - loss_[c]);
  for (double& x : w) x /= sum;
  if (w[kUniform] < kUniformLeast) {
    const double rest = (1 - kUniformLeast) / (1 - w[kUniform]);
    for (double& x : w) x *= rest;
    w[kUniform] = kUniformLeast;
  }
  return w;
}

// Each component brings its positions in order, so that nothing is sorted here.
std::vector<InteriorMixture::Weighted> InteriorMixture::expected(std::int32_t start,
                                                                 std::int32_t length) const {
  const std::array<double, 4> w = weights();
  struct Run {
    std::size_t at = 0, end = 0;
    double weight = 0;  // of each position
  };
  std::array<Run, 4> runs;
  std::vector<double> positions;
  positions.reserve(3 * splits_.size() + static_cast<std::size_t>(kBins));
  for (std::size_t c = 0; c < kUniform; ++c) {
    if (w[c] < 1e-3) continue;
    const std::size_t first = positions.size();
    for (const Split& s : sorted_[c]) {
      const double x = placed(s, static_cast<int>(c), length);
      if (x > start && x < length) positions.push_back(x);
    }
    runs[c] = {first, positions.size(), w[c] / static_cast<double>(positions.size() - first)};
  }
  runs[kUniform] = {positions.size(), positions.size() + static_cast<std::size_t>(kBins),
                    w[kUniform] / kBins};
  for (int i = 0; i < static_cast<int>(kBins); ++i) {
    positions.push_back(start + (i + 0.5) / kBins * (length - start));
  }

  std::vector<Weighted> out;
  out.reserve(positions.size());
  while (out.size() < positions.size()) {
    Run* least = nullptr;
    for (Run& run : runs) {
      if (run.at == run.end) continue;
      if (least != nullptr && std::pair(positions[run.at], run.weight) >=
                                  std::pair(positions[least->at], least->weight)) {
        continue;
      }
      least = &run;
    }
    out.push_back({positions[least->at++], least->weight});
  }
  return out;
}

void InteriorMixture::atoms(std::int32_t start, std::int32_t length, std::size_t count,
                            std::vector<std::int32_t>& out) const {
  out.clear();
  if (length - start < 2) return;
  const std::vector<Weighted> weighted = expected(start, length);
  double total = 0;
  for (const Weighted& w : weighted) total += w.weight;
  double sum = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double wanted = (static_cast<double>(i) + 0.5) / static_cast<double>(count) * total;
    while (at + 1 < weighted.size() && sum + weighted[at].weight < wanted) {
      sum += weighted[at++].weight;
    }
    out.push_back(std::clamp(static_cast<std::int32_t>(weighted[at].at), start + 1, length - 1));
  }
}

// Oldest first.
void InteriorMixture::write(std::vector<double>& out) const {
  out.insert(out.end(), loss_.begin(), loss_.end());
  out.push_back(static_cast<double>(splits_.size()));
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    const Split& s = splits_[(next_ + i) % splits_.size()];
    out.push_back(s.position);
    out.push_back(s.length);
  }
}

bool InteriorMixture::read(std::span<const double>& in) {
  if (in.size() < loss_.size() + 1) return false;
  std::array<double, 4> loss{};
  for (std::size_t c = 0; c < loss.size(); ++c) {
    if (!std::isfinite(in[c])) return false;
    loss[c] = in[c];
  }
  const double count = in[loss.size()];
  in = in.subspan(loss.size() + 1);
  if (!(count >= 0 && count <= static_cast<double>(kRemembered))) return false;
  const auto splits = static_cast<std::size_t>(count);
  if (in.size() < 2 * splits) return false;
  std::vector<Split> read;
  for (std::size_t i = 0; i < splits; ++i) {
    const double position = in[2 * i], length = in[2 * i + 1];
    if (!(position >= 1 && length > position && length < 1e9)) return false;
    read.push_back({static_cast<std::int32_t>(position), static_cast<std::int32_t>(length)});
  }
  in = in.subspan(2 * splits);
  loss_ = loss;
  splits_ = std::move(read);
  next_ = 0;
  for (std::vector<Split>& sorted : sorted_) sorted.clear();
  for (const Split& s : splits_) enter(s);
  return true;
}

}  // namespace cairn::engine
