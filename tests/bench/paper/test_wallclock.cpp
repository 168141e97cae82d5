// SPDX-License-Identifier: Apache-2.0
// The line through timed points, and the measurement itself on the embedded model.
#include "bench/paper/wallclock.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/markup.hpp"

using namespace cairn::paper;

TEST_CASE("Points on a line are fitted exactly, noise lowers R^2") {
  std::vector<TimedPoint> points;
  for (int i = 1; i <= 10; ++i) points.push_back({double(i), 0, 0.5 + 0.25 * i});
  LineFit fit = fit_line(points);
  CHECK(fit.slope == Approx(0.25));
  CHECK(fit.intercept == Approx(0.5));
  CHECK(fit.r2 == Approx(1));
  points[4].seconds += 2;
  CHECK(fit_line(points).r2 < 0.8);
  CHECK(fit_line({}).r2 == 0);
  const std::vector<TimedPoint> same = {{5, 0, 1}, {5, 0, 2}};
  CHECK(fit_line(same).r2 == 0);
}

TEST_CASE("Half of the timed requests resume from the document's end, half find no state") {
  WallclockOptions options;
  options.model = "demo";
  options.seconds = 30;
  options.threads = 1;
  options.document = 200;
  options.points = 12;
  options.repeats = 2;
  const Wallclock result = measure_wallclock(options);
  REQUIRE(result.points.size() == 12);
  int resumed = 0;
  for (const TimedPoint& p : result.points) {
    CHECK((p.cached == 0 || p.cached == 200));  // the first answer ended at its first token
    resumed += p.cached > 0 ? 1 : 0;
    CHECK(p.recomputed >= 4);
    CHECK(p.recomputed <= 200);
    CHECK(p.seconds > 0);
  }
  CHECK(resumed == 6);
  CHECK(result.prefill_rate > 0);
  CHECK(result.restore_seconds > 0);
  CHECK(result.fit.slope > 0);
  CHECK_THAT(to_markdown(result), Catch::Contains("| R^2 | "));
  CHECK_THAT(to_markdown(result), Catch::Contains("| load overhead of a resumed request, ms | "));
  CHECK(cairn::testing::markup_problem(to_svg(result)) == "");
}

TEST_CASE("A measurement ends when its seconds are over") {
  WallclockOptions options;
  options.model = "demo";
  options.seconds = 0;
  options.threads = 1;
  CHECK(measure_wallclock(options).points.size() <= 1);
}
