// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/simt/harness/counters.hpp"
#include "tests/simt/harness/device.hpp"
#include "tests/simt/support.hpp"

namespace cairn::kernels::cuda {
namespace {

using simt::contains;
using simt::DeviceSetup;
using simt::WithDevices;

#if defined(__SANITIZE_THREAD__)
constexpr bool kMayRace = false;  // it would stop the test: that it does is tested in planted/
#else
constexpr bool kMayRace = true;
#endif

constexpr int kNumbers = 64;
constexpr std::size_t kBytes = kNumbers * sizeof(int);

/// Adds to numbers on the device: what is there matters, and how often.
struct Add {
  struct Args {
    int* numbers = nullptr;
    const int* what = nullptr;
  };
  static constexpr const char* kName = "add";
  static constexpr int kThreads = kNumbers;
  static void run(const Args& args) {
    store_global(&args.numbers[threadIdx.x],
                 load_global(&args.numbers[threadIdx.x]) + load_global(args.what));
  }
};

/// A look at memory whose work may not be done: no access that ThreadSanitizer knows of.
__attribute__((no_sanitize("thread"))) int peek(const std::byte* memory) {
  return *reinterpret_cast<const volatile int*>(memory);
}

/// Two streams, their memory and staging.
struct Bench {
  DeviceBuffer numbers{0, kBytes, "numbers"};
  DeviceBuffer what{0, sizeof(int), "a number"};
  DeviceBuffer copy{0, kBytes, "a copy"};
  PinnedBuffer in{0, kBytes, "staging"};
  PinnedBuffer out{0, kBytes, "staging"};
  Event event{0};
  WorkStream a{0};
  WorkStream b{0};

  explicit Bench(int start = 0) {
    fill(start);
    a.copy_to_device(numbers.data(), in.data(), kBytes);
    *what.as<int>() = 1;
    a.finish();
  }
  void fill(int value) { std::fill_n(in.as<int>(), kNumbers, value); }
  void add(WorkStream& stream) {
    launch<Add>({1}, stream.get(), {numbers.as<int>(), what.as<int>()});
  }
  int first() const { return peek(numbers.data()); }
  int copied() const { return peek(out.data()); }
};

template <class Error = DeviceError, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is queued on a stream runs when it is waited for, on the null stream at once") {
  Bench bench(5);
  bench.add(bench.a);
  bench.a.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
  REQUIRE(bench.first() == 5);
  REQUIRE(bench.copied() == 0);
  bench.a.finish();
  REQUIRE(bench.first() == 6);
  REQUIRE(bench.copied() == 6);
  launch<Add>({1}, nullptr, {bench.numbers.as<int>(), bench.what.as<int>()});
  REQUIRE(bench.first() == 7);
}

TEST_CASE("a wait for an event runs what was queued before it, and no more") {
  Bench bench(5);
  bench.add(bench.a);
  bench.event.record(bench.a.get());
  bench.add(bench.a);
  bench.event.wait();
  REQUIRE(bench.first() == 6);
  bench.event.record(bench.a.get());
  bench.b.wait_for(bench.event);
  bench.add(bench.b);
  bench.event.wait();
  REQUIRE(bench.first() == 7);
  bench.b.finish();
  REQUIRE(bench.first() == 8);
  bench.event.record(bench.b.get());
  bench.add(bench.b);
  bench.event.record(bench.b.get());
  bench.event.wait();
  REQUIRE(bench.first() == 9);
}

TEST_CASE("a missing wait between streams shows as memory that nobody has written") {
  const auto copied = [](bool waits) {
    Bench bench(5);
    bench.a.copy_on_device(bench.copy.data(), bench.numbers.data(), kBytes);
    bench.event.record(bench.a.get());
    if (waits) bench.b.wait_for(bench.event);
    bench.b.copy_to_host(bench.out.data(), bench.copy.data(), kBytes);
    bench.b.finish();
    return bench.copied();
  };
  REQUIRE(copied(true) == 5);
  if (kMayRace) REQUIRE(copied(false) == -1);
}

TEST_CASE("a missing wait before memory is written again shows as the later bytes") {
  const auto copied = [](bool waits) {
    Bench bench(5);
    bench.b.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
    bench.event.record(bench.b.get());
    if (waits) bench.a.wait_for(bench.event);
    bench.add(bench.a);
    bench.a.finish();
    REQUIRE(bench.first() == 6);
    bench.b.finish();
    return bench.copied();
  };
  REQUIRE(copied(true) == 5);
  if (kMayRace) REQUIRE(copied(false) == 6);
}

TEST_CASE("with the others first, a stream that waits for nothing runs before the one waited for") {
  DeviceSetup setup;
  setup.order = simt::Order::others_first;
  const WithDevices devices(setup);
  const auto copied = [](bool waits) {
    Bench bench(5);
    bench.add(bench.a);
    bench.event.record(bench.a.get());
    if (waits) bench.b.wait_for(bench.event);
    bench.b.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
    bench.a.finish();
    const int early = bench.copied();
    bench.b.finish();
    return std::pair(early, bench.copied());
  };
  REQUIRE(copied(true) == std::pair(0, 6));
  if (kMayRace) REQUIRE(copied(false) == std::pair(5, 5));
}

TEST_CASE("a staging buffer that is written before its copy has run is seen") {
  const auto copied = [](bool waits) {
    Bench bench(0);
    bench.fill(1);
    bench.a.copy_to_device(bench.numbers.data(), bench.in.data(), kBytes);
    bench.event.record(bench.a.get());
    if (waits) bench.event.wait();
    bench.fill(2);
    bench.a.finish();
    return bench.first();
  };
  REQUIRE(copied(true) == 1);
  if (kMayRace) REQUIRE(copied(false) == 2);
}

TEST_CASE("a stream waits for what the event stood for then; one never recorded holds nobody up") {
  Bench bench(5);
  bench.b.wait_for(bench.event);
  bench.event.wait();
  REQUIRE(bench.event.done());
  bench.add(bench.a);
  bench.event.record(bench.a.get());
  bench.b.wait_for(bench.event);
  bench.a.zero(bench.copy.data(), kBytes);
  bench.event.record(bench.a.get());
  bench.b.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
  bench.b.finish();
  REQUIRE(bench.copied() == 6);
  REQUIRE(peek(bench.copy.data()) == -1);
}

TEST_CASE("who asks whether an event is done gets on, and done events have a time") {
  Bench bench(5);
  Event start(0);
  start.record(bench.a.get());
  bench.add(bench.a);
  bench.event.record(bench.a.get());
  REQUIRE_THROWS_AS(bench.event.milliseconds_since(start), InvariantError);
  REQUIRE_FALSE(bench.event.done());
  REQUIRE(bench.event.done());
  REQUIRE(bench.first() == 6);
  REQUIRE(bench.event.milliseconds_since(start) >= 0);
}

TEST_CASE("a graph runs what was recorded on what its memory then holds") {
  Bench bench(0);
  const Graph graph(bench.a, [&] {
    bench.a.copy_to_device(bench.what.data(), bench.in.data(), sizeof(int));
    bench.add(bench.a);
    bench.a.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
  });
  REQUIRE(graph.nodes() == 3);
  bench.a.finish();
  REQUIRE(bench.first() == 0);
  int sum = 0;
  for (const int value : {3, 40}) {
    bench.fill(value);
    graph.launch(bench.b);
    REQUIRE(bench.first() == sum);
    bench.b.finish();
    sum += value;
    REQUIRE(bench.copied() == sum);
  }
}

TEST_CASE("what no graph can hold is refused, and the stream goes on") {
  Bench bench(5);
  const auto refused = [&](const std::function<void()>& call) {
    const std::string text = error_of([&] {
      Graph(bench.a, [&] {
        bench.add(bench.a);
        call();
      });
    });
    // Also when the call's own error has got lost.
    REQUIRE_THROWS_AS(Graph(bench.a, [&] { error_of(call); }), DeviceError);
    bench.add(bench.a);
    return contains(text, "not while the thread records a graph");
  };
  REQUIRE(refused([] { DeviceBuffer(0, 1, "x"); }));
  REQUIRE(refused([] { PinnedBuffer(0, 1, "x"); }));
  REQUIRE(refused([&] { bench.a.finish(); }));
  REQUIRE(refused([&] { bench.event.wait(); }));
  REQUIRE(refused([&] { bench.event.done(); }));
  REQUIRE(refused([&] { bench.event.record(bench.a.get()); }));
  REQUIRE(refused([&] { bench.a.wait_for(bench.event); }));
  bench.a.finish();
  REQUIRE(bench.first() == 5 + 7);
}

TEST_CASE("a fault of work that was put off is thrown where it is waited for, once") {
  Bench bench(5);
  const int* misaligned = reinterpret_cast<const int*>(bench.what.data() + 1);
  launch<Add>({1}, bench.b.get(), {bench.copy.as<int>(), misaligned});
  bench.add(bench.b);
  bench.event.record(bench.b.get());
  bench.a.wait_for(bench.event);
  bench.add(bench.a);
  REQUIRE(contains(error_of<simt::Fault>([&] { bench.a.finish(); }), "misaligned"));
  bench.add(bench.b);
  bench.b.finish();
  REQUIRE(bench.first() == 6);
}

TEST_CASE("a copy's ends lie in one buffer of the device and one that is pinned") {
  Bench bench;
  std::vector<std::byte> pageable(kBytes);
  REQUIRE_THROWS_AS(bench.a.copy_to_device(bench.numbers.data(), pageable.data(), 4), simt::Fault);
  REQUIRE_THROWS_AS(bench.a.copy_to_device(bench.in.data(), bench.in.data(), 4), simt::Fault);
  REQUIRE_THROWS_AS(bench.a.copy_to_host(bench.out.data(), bench.numbers.data() + 4, kBytes),
                    simt::Fault);
  REQUIRE_THROWS_AS(bench.a.zero(bench.numbers.data() - 1, 1), simt::Fault);
  bench.a.zero(bench.numbers.data(), kBytes);
  bench.a.finish();
  REQUIRE(bench.first() == 0);
}

TEST_CASE("a graph that copies memory which is given back is reported") {
  Bench bench;
  Graph graph;
  {
    const DeviceBuffer passing(0, kBytes, "numbers");
    graph = Graph(bench.a,
                  [&] { bench.a.copy_on_device(passing.data(), bench.numbers.data(), kBytes); });
    graph.launch(bench.a);
  }
  graph.launch(bench.a);
  REQUIRE(contains(error_of<simt::Fault>([&] { bench.a.finish(); }), "does not lie in one buffer"));
}

TEST_CASE("what a step allocates, queues and waits for is counted") {
  Bench bench;
  const Graph graph(bench.a, [&] { bench.add(bench.a); });
  const simt::DeviceCounts before = simt::device_counts();
  bench.add(bench.a);
  bench.a.zero(bench.copy.data(), kBytes);
  bench.a.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
  graph.launch(bench.a);
  bench.event.record(bench.a.get());
  bench.event.wait();
  bench.a.finish();
  const DeviceBuffer more(0, 1, "more");
  REQUIRE(simt::device_counts() - before == simt::DeviceCounts{1, 2, 1, 2, 1});
}

TEST_CASE("launches of streams that nothing orders are counted together") {
  Bench one;
  Bench other;
  const simt::Counting counting;
  for (int i = 0; i < 3; ++i) {
    one.add(one.a);
    other.add(other.b);
  }
  other.b.finish();
  REQUIRE(counting.of("add").launches == 3);
  one.a.finish();
  REQUIRE(counting.of("add").launches == 6);
  REQUIRE(counting.of("add").stores.bytes == 6 * static_cast<std::int64_t>(kBytes));
}

TEST_CASE("a full device says what did not fit, how much it needs and how much is free") {
  DeviceSetup setup;
  setup.memory = 3 << 20;
  setup.pinnable = 1 << 20;
  const WithDevices devices(setup);
  REQUIRE(describe_device(0).memory_free == 3 << 20);
  const DeviceBuffer half(0, 1 << 20, "half");
  REQUIRE(describe_device(0).memory_free == 2 << 20);
  REQUIRE(error_of([] { DeviceBuffer(0, (2 << 20) + 1, "the weights"); }) ==
          "cuda:0 has not the memory for the weights: 2.00 MiB needed, 2.00 MiB free");
  REQUIRE(DeviceBuffer(0, 2 << 20, "the weights").size() == 2 << 20);
  REQUIRE(error_of([] { PinnedBuffer(0, 2 << 20, "staging"); }) ==
          "the host cannot pin the memory for staging: 2.00 MiB needed");
}

TEST_CASE("devices are those that the kernels run on, and errors say why there is none") {
  REQUIRE(find_devices().size() == 1);
  REQUIRE(describe_device(0).architecture() == "sm_90");
  DeviceSetup setup;
  setup.devices = 2;
  setup.minor = 5;
  setup.major = 7;
  {
    const WithDevices devices(setup);
    REQUIRE(find_devices().size() == 2);
    REQUIRE_FALSE(describe_device(1).multiplies_bf16());
    REQUIRE(error_of([] { describe_device(2); }) == "there is no cuda:2: the last of 2 is cuda:1");
    REQUIRE_THROWS_AS(WorkStream(2), DeviceError);
  }
  setup.minor = 0;
  {
    const WithDevices devices(setup);
    const std::string text = "cuda:1 is sm_70, and the kernels need sm_75 or later";
    REQUIRE(error_of([] { describe_device(1); }) == text);
    REQUIRE(error_of([] { find_devices(); }) == "no CUDA device: " + text);
  }
  setup.devices = 0;
  const WithDevices devices(setup);
  REQUIRE(contains(error_of([] { find_devices(); }), "no CUDA device: the driver sees none"));
  REQUIRE_THROWS_AS(DeviceBuffer(0, 1, "x"), DeviceError);
}

TEST_CASE("a device that is lost at any call answers none after it, and is given back in silence") {
  const auto use = [] {
    Bench bench;
    const Graph graph(bench.a, [&] { bench.add(bench.a); });
    graph.launch(bench.a);
    bench.event.record(bench.a.get());
    bench.b.wait_for(bench.event);
    bench.add(bench.b);
    bench.event.wait();
    bench.b.finish();
    return bench.first();
  };
  int lost = 0;
  for (int operations = 0;; ++operations) {
    const WithDevices devices({});
    simt::lose_device(operations);
    const std::string text = error_of<DeviceLost>(use);
    if (text.empty()) break;
    ++lost;
    REQUIRE(contains(text, "the device is lost"));
    REQUIRE(contains(text, "the process has to be restarted"));
    REQUIRE(contains(error_of<DeviceLost>([] { describe_device(0); }), "lost"));
    launch<Add>({0}, nullptr, {});
    REQUIRE_THROWS_AS(launch<Add>({1}, nullptr, {}), DeviceLost);
  }
  REQUIRE(lost > 15);
  REQUIRE(use() == 2);
}

TEST_CASE("a lost device does nothing of what was queued") {
  Bench bench(5);
  {
    const WithDevices devices({});
    bench.add(bench.a);
    simt::lose_device();
    REQUIRE_THROWS_AS(bench.a.finish(), DeviceLost);
  }
  bench.a.finish();
  REQUIRE(bench.first() == 5);
}

TEST_CASE("handles move with what they hold") {
  Bench bench(5);
  DeviceBuffer memory(0, kBytes, "numbers");
  std::byte* const data = memory.data();
  DeviceBuffer moved(std::move(memory));
  REQUIRE(memory.data() == nullptr);
  memory = std::move(moved);
  REQUIRE(memory.data() == data);
  REQUIRE(moved.size() == 0);

  Graph graph;
  REQUIRE_FALSE(graph);
  graph = Graph(bench.a, [&] { bench.add(bench.a); });
  WorkStream stream = std::move(bench.b);
  Event event = std::move(bench.event);
  graph.launch(stream);
  event.record(stream.get());
  bench.b = std::move(stream);
  event.wait();
  REQUIRE(bench.first() == 6);
}

TEST_CASE("memory that is given back waits for the work that uses it") {
  Bench bench(5);
  {
    const DeviceBuffer passing(0, kBytes, "numbers");
    bench.a.copy_on_device(passing.data(), bench.numbers.data(), kBytes);
    bench.a.copy_on_device(bench.copy.data(), passing.data(), kBytes);
  }
  bench.a.copy_to_host(bench.out.data(), bench.copy.data(), kBytes);
  bench.a.finish();
  REQUIRE(bench.copied() == 5);
}

TEST_CASE("threads that queue and wait beside one another get each their own work done") {
  Bench shared(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&shared, i] {
      Bench bench(i);
      for (int step = 0; step < 5; ++step) {
        bench.add(bench.a);
        bench.event.record(bench.a.get());
        bench.b.wait_for(bench.event);
        bench.b.copy_to_host(bench.out.data(), bench.numbers.data(), kBytes);
        bench.b.finish();
        if (bench.copied() != i + step + 1) return;
      }
      bench.b.copy_on_device(shared.numbers.data() + 4 * i, bench.numbers.data(), 4);
      bench.b.finish();
    });
  }
  for (std::thread& t : threads) t.join();
  const int* numbers = shared.numbers.as<int>();
  REQUIRE(std::vector<int>(numbers, numbers + 4) == std::vector<int>{5, 6, 7, 0});
}

}  // namespace cairn::kernels::cuda
