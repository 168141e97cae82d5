// SPDX-License-Identifier: Apache-2.0
// Times the CPU kernels at the shapes of Qwen3.5-0.8B and prints each beside the limit that binds
// it.
//   bench_kernels [threads] [isa] [cpu]
// "cpu" counts processor time instead of the clock on the wall, for machines that do other work
// meanwhile.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace {

using namespace cairn;
using namespace cairn::kernels;

int cpu_clock_threads = 0;  // > 0: time is processor time over so many threads

double now() {
  if (cpu_clock_threads > 0) {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / cpu_clock_threads;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Best of several runs, in seconds: the machine's other work only ever adds.
double best_of(int runs, const std::function<void()>& fn) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const double begin = now();
    fn();
    best = std::min(best, now() - begin);
  }
  return best;
}

std::vector<float> random_floats(std::int64_t n, float scale = 1.0F) {
  static std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = uniform(generator);
  return v;
}

struct Limits {
  double gflops = 0;  // fma from registers and the first-level cache, all threads
  double gbytes = 0;  // streaming reads, all threads
};

Limits measure_limits(ThreadPool& pool, const Ops& k) {
  Limits limits;
  const int threads = pool.threads();
  {
    // The matrix kernel itself on a panel of 16 KiB and six rows: what its inner loop can reach.
    PackedMatrix w(64, 128);
    const std::vector<float> x = random_floats(6 * 144);
    std::vector<std::vector<float>> y(static_cast<std::size_t>(threads),
                                      std::vector<float>(6 * 64));
    constexpr int kRepeats = 20000;
    const double s = best_of(5, [&] {
      pool.run(threads, [&](std::int64_t t) {
        for (int i = 0; i < kRepeats; ++i) {
          k.gemm(w, 0, 1, x.data(), 144, 6, y[static_cast<std::size_t>(t)].data(), 64);
        }
      });
    });
    limits.gflops = 2.0 * 6 * 64 * 128 * kRepeats * threads / s * 1e-9;
  }
  {
    HugeBuffer buffer(std::size_t{512} << 20);
    std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{1});
    const auto* p = reinterpret_cast<const float*>(buffer.data());
    const auto n = static_cast<std::int64_t>(buffer.size() / sizeof(float));
    std::vector<float> sums(static_cast<std::size_t>(threads));
    const double s = best_of(5, [&] {
      pool.run(threads, [&](std::int64_t t) {
        const std::int64_t begin = n * t / threads;
        sums[static_cast<std::size_t>(t)] = k.sum(p + begin, n * (t + 1) / threads - begin);
      });
    });
    limits.gbytes = static_cast<double>(buffer.size()) / s * 1e-9;
  }
  return limits;
}

void report(const char* name, double seconds, double flops, double bytes, const Limits& limits) {
  std::printf("%-34s %10.1f us %8.1f GFLOP/s (%4.1f %%) %7.1f GB/s (%4.1f %%)\n", name,
              seconds * 1e6, flops / seconds * 1e-9, flops / seconds * 1e-7 / limits.gflops,
              bytes / seconds * 1e-9, bytes / seconds * 1e-7 / limits.gbytes);
}

void time_gemm(ThreadPool& pool, const Ops& k, const Limits& limits) {
  struct Shape {
    const char* name;
    std::int64_t n, k;
  };
  // One layer's largest weights; four copies each so that single rows read from memory.
  for (const Shape& shape :
       {Shape{"qkv+z 8192x1024", 8192, 1024}, Shape{"gate+up 7168x1024", 7168, 1024},
        Shape{"down 1024x3584", 1024, 3584}}) {
    const std::int64_t copies = (std::int64_t{200} << 20) / (2 * shape.n * shape.k);
    PackedMatrix w(shape.n * copies, shape.k);
    const std::vector<float> source = random_floats(shape.k * 64);
    std::vector<Bf16> rows(source.size());
    std::transform(source.begin(), source.end(), rows.begin(), to_bf16);
    for (std::int64_t n = 0; n < w.n(); n += 64) w.pack(n, 64, rows.data());
    for (const std::int64_t m : {1, 2, 4, 8, 16, 32, 128, 512}) {
      const std::int64_t ldx = shape.k + 16;
      const std::vector<float> x = random_floats(m * ldx);
      const std::int64_t used = m > 16 ? 1 : copies;
      const std::int64_t n = shape.n * used;
      std::vector<float> y(static_cast<std::size_t>(m * n));
      const double s = best_of(m > 16 ? 4 : 6, [&] {
        const std::int64_t panels = n / kPanelColumns;
        const std::int64_t chunks = std::min<std::int64_t>(panels, 8 * pool.threads());
        pool.run(chunks, [&](std::int64_t c) {
          k.gemm(w, panels * c / chunks, panels * (c + 1) / chunks, x.data(), ldx, m, y.data(), n);
        });
      });
      const std::string name = "gemm " + std::string(shape.name) + " rows " + std::to_string(m);
      const auto weights = static_cast<double>(n * shape.k);
      report(name.c_str(), s / static_cast<double>(used),
             2 * weights * static_cast<double>(m) / static_cast<double>(used),
             2 * weights / static_cast<double>(used), limits);
    }
  }
}

void time_delta(ThreadPool& pool, const Ops& k, const Limits& limits) {
  constexpr int kHeads = 16, kDim = 128;
  for (const std::int64_t tokens : {1, 2, 4, 16, 128, 512}) {
    const std::vector<float> q = random_floats(tokens * kHeads * kDim, 0.1F);
    std::vector<float> o(q.size());
    const std::vector<float> gate(static_cast<std::size_t>(tokens * kHeads), 0.9F);
    // 18 layers of states, as a decoding step walks through them.
    std::vector<float> state = random_floats(18LL * kHeads * kDim * kDim);
    int layer = 0;
    const double s = best_of(40, [&] {
      layer = (layer + 1) % 18;
      pool.run(kHeads, [&](std::int64_t h) {
        DeltaArgs a;
        a.dk = a.dv = a.column_end = kDim;
        a.tokens = tokens;
        a.state = state.data() + (layer * kHeads + h) * kDim * kDim;
        a.q = a.k = a.v = q.data() + h * kDim;
        a.ldq = a.ldk = a.ldv = a.ldo = kHeads * kDim;
        a.decay = a.beta = gate.data() + h;
        a.ldg = kHeads;
        a.o = o.data() + h * kDim;
        k.delta_rule(a);
      });
    });
    const double elements = 1.0 * kHeads * kDim * kDim;
    report(("delta rule, 16 heads, tokens " + std::to_string(tokens)).c_str(), s,
           7 * elements * static_cast<double>(tokens), 8 * elements, limits);
  }
}

void time_attention(ThreadPool& pool, const Ops& k, const Limits& limits) {
  constexpr int kGroup = 4, kDim = 256;
  const KvLayout layout{KvType::bf16, 2, kDim};
  for (const std::int64_t context : {512, 4096, 32768}) {
    HugeBuffer memory(layout.layer_bytes() * static_cast<std::size_t>(context / 16));
    std::vector<const std::byte*> blocks;
    const std::vector<float> kv = random_floats(2 * kDim);
    for (std::int64_t t = 0; t < context; ++t) {
      std::byte* block = memory.data() + layout.layer_bytes() * static_cast<std::size_t>(t / 16);
      if (t % 16 == 0) blocks.push_back(block);
      k.kv_store(layout, block, static_cast<std::int32_t>(t % 16), kv.data(), kv.data());
    }
    for (const std::int32_t rows : {1, 32}) {
      const std::vector<float> q = random_floats(rows * 2 * kGroup * kDim);
      std::vector<float> o(q.size());
      const std::int64_t size = (attention_scratch(rows, kGroup, kDim) + 15) / 16 * 16;
      HugeBuffer scratch(static_cast<std::size_t>(2 * size) * sizeof(float));
      const double s = best_of(6, [&] {
        pool.run(2, [&](std::int64_t head) {
          AttentionArgs a;
          a.layout = layout;
          a.kv_head = static_cast<std::int32_t>(head);
          a.group = kGroup;
          a.rows = rows;
          a.position = context - rows;
          a.blocks = blocks.data();
          a.scale = 1.0F / 16;
          a.q = q.data() + head * kGroup * kDim;
          a.o = o.data() + head * kGroup * kDim;
          a.ldq = a.ldo = 2 * kGroup * kDim;
          a.scratch = reinterpret_cast<float*>(scratch.data()) + head * size;
          k.attention(a);
        });
      });
      report(("attention, context " + std::to_string(context) + ", rows " + std::to_string(rows))
                 .c_str(),
             s, 4.0 * rows * 2 * kGroup * kDim * static_cast<double>(context),
             static_cast<double>(memory.size()), limits);
    }
  }
}

void time_small(const Ops& k, const Limits& limits) {
  constexpr std::int64_t n = 1 << 16;
  const std::vector<float> x = random_floats(n, 8.0F);
  std::vector<float> y(x.size());
  const double one = static_cast<double>(n);
  report("exp, 65536 elements", best_of(20, [&] { k.exp(x.data(), n, y.data()); }), 16 * one,
         8 * one, limits);
  report("swiglu, 65536 elements",
         best_of(20, [&] { k.swiglu(x.data(), n, x.data(), n, 1, n, y.data(), n); }), 20 * one,
         12 * one, limits);
  report(
      "rms_norm, 64 x 1024",
      best_of(20, [&] { k.rms_norm(x.data(), 1024, 64, 1024, x.data(), 1e-6F, y.data(), 1024); }),
      5 * one, 8 * one, limits);
  std::vector<float> window(3 * 1024);
  const std::vector<float> taps = random_floats(4 * 1024);
  report("conv_silu, 64 tokens x 1024",
         best_of(20,
                 [&] {
                   ConvArgs a;
                   a.channels = a.channel_end = a.ldx = a.ldy = 1024;
                   a.tokens = 64;
                   a.weight = taps.data();
                   a.window = window.data();
                   a.x = x.data();
                   a.y = y.data();
                   k.conv_silu(a);
                 }),
         26 * one, 8 * one, limits);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const auto isa = cairn::kernels::choose_isa(argc > 2 ? argv[2] : "");
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.error().message.c_str());
    return 1;
  }
  if (argc > 3 && std::string(argv[3]) == "cpu") cpu_clock_threads = std::max(threads, 1);
  ThreadPool pool(threads);
  const Ops& k = ops(*isa);
  const Limits limits = measure_limits(pool, k);
  std::printf("%s, %d threads; limits here: %.1f GFLOP/s (tile in cache), %.1f GB/s (reads)\n",
              cairn::kernels::to_string(*isa), pool.threads(), limits.gflops, limits.gbytes);
  time_gemm(pool, k, limits);
  time_delta(pool, k, limits);
  time_attention(pool, k, limits);
  time_small(k, limits);
  return 0;
}
