// SPDX-License-Identifier: Apache-2.0
// The device itself: what it is, and what it can do at most.
#include <cstdio>
#include <string>

#include "base/bytes.hpp"
#include "tests/gpu_check/parts.hpp"
#include "tests/gpu_check/probes.hpp"
#include "tests/gpu_check/timing.hpp"

namespace cairn::gpu_check {
namespace {

using kernels::cuda::describe_device;
using kernels::cuda::DeviceBuffer;
using kernels::cuda::DeviceDescription;
using kernels::cuda::Event;
using kernels::cuda::Graph;
using kernels::cuda::PinnedBuffer;
using kernels::cuda::WorkStream;

/// The first line that a command prints; "" when there is no such command.
std::string first_line(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  char line[256] = "";
  const bool any = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = any ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

void describe(Context& context) {
  kernels::cuda::find_devices();  // says what is missing
  const DeviceDescription device = describe_device(kDevice);
  Report& report = context.report;
  report.fact("device", device.name + (kDryRun ? " (dry run: times mean nothing)" : ""));
  report.fact("architecture", device.architecture());
  report.measured("multiprocessors", device.multiprocessors, "SMs");
  report.fact("memory", format_bytes(device.memory_total) + ", " +
                            format_bytes(device.memory_free) + " free");
  if (kDryRun) return;
  const std::string clocks = first_line(
      "nvidia-smi -i 0 --format=csv,noheader --query-gpu="
      "driver_version,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current");
  if (clocks.empty()) {
    report.skipped("driver, clocks, power limit, ECC", "there is no nvidia-smi");
  } else {
    report.fact("driver, clocks, power limit, ECC", clocks);
  }
}

void measure_graph_latency(Context& context) {
  constexpr int kNodes = 200;
  WorkStream stream(kDevice);
  const auto queue = [&] {
    for (int i = 0; i < kNodes; ++i) empty_kernel(stream.get());
  };
  queue();  // loads the code, which a capture does not take
  stream.finish();
  const Graph graph(stream, queue);
  const int rounds = kDryRun ? 1 : 20;
  const double in_graph = best_ms(stream, rounds, [&] { graph.launch(stream); });
  const double by_launch = best_ms(stream, rounds, queue);
  context.report.measured("a node of a graph", 1000 * in_graph / kNodes, "us",
                          "graph of " + std::to_string(graph.nodes()) + " empty kernels");
  context.report.measured("a launch on a stream", 1000 * by_launch / kNodes, "us");
  Event event(kDevice);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) {
    empty_kernel(stream.get());
    event.record(stream.get());
    event.wait();
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  context.report.measured("a launch, waited for", 1e6 * waited.count() / rounds, "us");
}

void measure_bandwidth(Context& context) {
  const std::int64_t largest = kDryRun ? 256 << 10 : std::int64_t{4} << 30;
  WorkStream stream(kDevice);
  const DeviceBuffer memory(kDevice, static_cast<std::size_t>(largest), "reading");
  const DeviceBuffer sink(kDevice, 256, "reading");
  stream.zero(memory.data(), memory.size());
  const std::int64_t sms = kDryRun ? 1 : describe_device(kDevice).multiprocessors;
  double best = 0;
  std::string note;
  for (std::int64_t bytes = largest; bytes >= largest / 16; bytes /= 4) {
    for (const std::int64_t blocks : {4 * sms, 8 * sms, 32 * sms}) {
      const double ms = best_ms(stream, kDryRun ? 1 : 5, [&] {
        stream_read(stream.get(), memory.data(), bytes, blocks, sink.as<float>());
      });
      const double rate = static_cast<double>(bytes) / ms / 1e6;
      if (rate <= best) continue;
      best = rate;
      note = format_bytes(static_cast<std::uint64_t>(bytes)) + " in " + std::to_string(blocks) +
             " blocks";
    }
  }
  context.report.measured(kBandwidth, best, "GB/s", note);
  const double ms = best_ms(stream, kDryRun ? 1 : 5, [&] {
    stream.copy_on_device(memory.data(), memory.data() + largest / 2,
                          static_cast<std::size_t>(largest / 2));
  });
  context.report.measured("copy on the device", static_cast<double>(largest) / ms / 1e6, "GB/s",
                          "read and written bytes");
}

void measure_matrix_rate(Context& context) {
  const DeviceDescription device = describe_device(kDevice);
  if (!device.multiplies_bf16()) {
    context.report.skipped(kMatrixRate, "no tensor cores for bf16");
    return;
  }
  const std::int64_t blocks = kDryRun ? 1 : std::int64_t{2} * device.multiprocessors;
  const std::int32_t rounds = kDryRun ? 2 : 100'000;
  WorkStream stream(kDevice);
  const DeviceBuffer out(kDevice, 512, "the matrix rate");
  auto* const cycles = out.as<std::int64_t>();
  const double ms = best_ms(stream, kDryRun ? 1 : 3, [&] {
    matrix_rate(stream.get(), blocks, rounds, cycles, out.as<float>() + 64);
  });
  context.report.measured(kMatrixRate, matrix_operations(blocks, rounds) / ms / 1e9, "TFLOP/s",
                          "mma.sync of bf16 in registers");
  const PinnedBuffer host(kDevice, 8, "the matrix rate");
  stream.copy_to_host(host.data(), out.data(), 8);
  stream.finish();
  const auto counted = static_cast<double>(*host.as<std::int64_t>());
  context.report.measured(kClock, counted / ms / 1000, "MHz", "cycles of a block in that time");
}

}  // namespace cairn::gpu_check
