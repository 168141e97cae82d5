// SPDX-License-Identifier: Apache-2.0
// Seconds on the real engine against tokens recomputed.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cairn::paper {

struct TimedPoint {
  double recomputed = 0;  // tokens of the prompt that were not cached
  double cached = 0;      // tokens
  double seconds = 0;     // from submission to the first token
};

/// seconds = intercept + slope * tokens by least squares; r2 of the fit, 0 for fewer than two
/// different abscissas.
struct LineFit {
  double slope = 0, intercept = 0, r2 = 0;
};
LineFit fit_line(std::span<const TimedPoint> points);

struct WallclockOptions {
  std::string model;     // a directory of the shape to be measured
  double seconds = 340;  // of measuring, loading not counted; one of `repeats` rounds takes
                         // 80 at 210 tokens/s
  int threads = 0;       // 0: physical cores
  int document = 640;    // tokens that requests share
  int points = 40;
  int repeats = 4;  // of each point, the fastest counts: other work on the machine only delays
};

struct Wallclock {
  std::vector<TimedPoint> points;
  double prefill_rate = 0;  // tokens/s of whole documents that bypass the cache, timed likewise
  LineFit fit;
  /// What a request that resumes takes longer than the line of those that do not: the restore, and
  /// attention over what was cached.
  double load_seconds = 0;
  double restore_seconds = 0;  // of copying one state in, the mean
  std::string machine;         // threads and instruction set
};

/// Half of the requests leave the document early and find no state, half go on from its end; tokens
/// recomputed are spread evenly over the document's length in both halves. Throws LoadError.
Wallclock measure_wallclock(const WallclockOptions& options);

std::string to_markdown(const Wallclock& result);
std::string to_svg(const Wallclock& result);

}  // namespace cairn::paper
