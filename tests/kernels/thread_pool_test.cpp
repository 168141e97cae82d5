// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_pool.hpp"

#include <sys/resource.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "kernels/cpu/chunks.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("the pool runs each chunk exactly once, job after job") {
  for (const int threads : {0, 1, 2, 4}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == std::max(threads, 1));
    for (const std::int64_t chunks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> count(static_cast<std::size_t>(chunks));
      for (int job = 1; job <= 30; ++job) {
        pool.run(chunks, [&](std::int64_t c) { ++count[static_cast<std::size_t>(c)]; });
        for (const auto& c : count) REQUIRE(c.load() == job);
      }
    }
  }
}

TEST_CASE("plain writes of a chunk are visible after run") {
  ThreadPool pool(3);
  std::vector<int> data(500);
  for (int round = 1; round <= 200; ++round) {
    pool.run(500, [&](std::int64_t c) { data[static_cast<std::size_t>(c)] += 1; });
    for (const int value : data) REQUIRE(value == round);
  }
}

TEST_CASE("a thread that is held up in a chunk does not hold up the rest of its range") {
  constexpr std::int64_t kChunks = 12;
  ThreadPool pool(2);
  for (std::int64_t held = 0; held < kChunks; ++held) {
    std::atomic<std::int64_t> others{0};
    std::atomic<bool> in_time{true};
    pool.run(kChunks, [&](std::int64_t c) {
      if (c != held) {
        ++others;
        return;
      }
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (others.load() < kChunks - 1) {
        if (std::chrono::steady_clock::now() > end) {
          in_time = false;
          return;
        }
        std::this_thread::yield();
      }
    });
    REQUIRE(in_time.load());
  }
}

TEST_CASE("an exception of a chunk reaches the caller and the pool goes on") {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (const std::int64_t bad : {0, 5, 19}) {
      std::atomic<int> ran{0};
      REQUIRE_THROWS_AS(pool.run(20,
                                 [&](std::int64_t c) {
                                   ++ran;
                                   if (c >= bad) throw std::runtime_error("chunk");
                                 }),
                        std::runtime_error);
      REQUIRE(ran.load() >= 1);
      std::atomic<int> after{0};
      pool.run(20, [&](std::int64_t) { ++after; });
      REQUIRE(after.load() == 20);
    }
  }
}

TEST_CASE("a job inside a chunk runs on the chunk's thread") {
  ThreadPool pool(3);
  std::atomic<int> inner{0};
  pool.run(6, [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    pool.run(5, [&](std::int64_t) {
      if (std::this_thread::get_id() == self) ++inner;
    });
  });
  REQUIRE(inner.load() == 30);
  REQUIRE_THROWS_AS(
      pool.run(
          2, [&](std::int64_t) { pool.run(2, [](std::int64_t) { throw std::logic_error("x"); }); }),
      std::logic_error);
}

TEST_CASE("jobs from several threads wait for one another") {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  std::atomic<int> total{0};
  std::atomic<bool> overlapped{false};
  const auto client = [&] {
    for (int job = 0; job < 50; ++job) {
      std::atomic<int> mine{0};
      pool.run(4, [&](std::int64_t) {
        if (inside.fetch_add(1) >= 2) overlapped = true;  // more than the pool's threads at once
        ++mine;
        --inside;
      });
      total += mine.load();
    }
  };
  std::thread a(client), b(client);
  a.join();
  b.join();
  REQUIRE(total.load() == 400);
  REQUIRE_FALSE(overlapped.load());
}

TEST_CASE("every chunk sees default rounding and denormals, and the caller's setting survives") {
  ThreadPool pool(3);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040U);  // flush to zero, denormals are zero
  std::atomic<int> wrong{0};
  pool.run(64, [&](std::int64_t) {
    if ((_mm_getcsr() & 0xffc0U) != 0x1f80U) ++wrong;
    volatile float tiny = 0x1p-140F;
    if (tiny * 0.5F == 0.0F) ++wrong;
    std::this_thread::yield();
  });
  REQUIRE((_mm_getcsr() & 0x8040U) == 0x8040U);
  _mm_setcsr(before);
  REQUIRE(wrong.load() == 0);
}

TEST_CASE("idle workers sleep") {
  ThreadPool pool(4);
  pool.run(64, [](std::int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  REQUIRE(process_cpu_seconds() - before < 0.15);  // spinning, they would take most of a second
  std::atomic<int> woken{0};
  pool.run(64, [&](std::int64_t) { ++woken; });
  REQUIRE(woken.load() == 64);
}

TEST_CASE(
    "a product's chunks are all of its panels and rows once, one panel each where rows are many") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const std::int64_t rows : {0, 1, 15, 16, 95, 96, 97}) {
      for (const std::int64_t panels : {1, 5, 40}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(rows * panels));
        std::atomic<int> calls{0}, wide{0};
        split_product(
            pool, panels, rows,
            [&](std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
              ++calls;
              if (last - first > 1) ++wide;
              for (std::int64_t p = first; p < last; ++p) {
                for (std::int64_t r = begin; r < end; ++r) {
                  ++seen[static_cast<std::size_t>(p * rows + r)];
                }
              }
            });
        INFO(rows << " rows, " << panels << " panels, " << threads << " threads");
        CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& times) { return times == 1; }));
        if (rows >= 16) {
          CHECK(wide == 0);
          CHECK(calls == panels * (rows < 96 ? 1 : 2));
        } else {
          CHECK(calls == (rows == 0 ? 0 : std::min<std::int64_t>(panels, 6 * threads)));
        }
      }
    }
  }
}

TEST_CASE("pools come and go") {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 4);
    if (i % 3 != 0) pool.run(8, [](std::int64_t) {});
  }
  SUCCEED();
}

}  // namespace cairn::kernels::testing
