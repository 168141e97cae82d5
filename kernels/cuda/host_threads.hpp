// SPDX-License-Identifier: Apache-2.0
// CUDA's built-ins for kernels that the host compiler compiles: every thread of a block is a fiber
// of one OS thread. Declared here, so that kernels need no test header; defined by the harness
// (tests/simt/harness), the only one to link them.
//
// A mistake of the kernel that the machine can see (a deadlock, a misaligned access, a lane that is
// not in the mask, a copy never waited for) ends the launch with simt::Fault. Bounds and missing
// barriers are found by the sanitizers. Not modelled: blocks that run at the same time, memory
// scopes and fences, __activemask, static __shared__ (which therefore does not compile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline

struct CUstream_st;

namespace cairn::simt {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

struct LaunchShape {
  const char* kernel = "";
  Index grid;
  unsigned threads = 0;  // a multiple of 32, at most 1,024
  std::size_t shared_bytes = 0;
};

/// Runs thread(context) for each thread of each block, and throws Fault (harness.hpp) when one
/// faulted. Launches of several OS threads wait for each other.
void run(const LaunchShape& shape, void (*thread)(void*), void* context);

/// Does the work of a launch at once on the null stream; on another when somebody waits for it, and
/// for a stream that is captured at every launch of the graph (device.hpp). Throws DeviceLost.
void queue(CUstream_st* stream, const char* kernel, std::function<void()> work);

/// Ends the launch: "kernel K, block B, thread T: <message>". printf format.
[[noreturn, gnu::format(printf, 1, 2)]] void fault(const char* format, ...);

/// This block's dynamic shared memory: exactly the bytes asked for, filled with 0xff.
std::byte* shared_memory();

enum class Access : std::uint8_t {
  global_load,
  read_only_load,
  global_store,
  shared_load,
  shared_store
};

/// Checks alignment and address space of an access by this lane, and counts it while a Counting
/// (counters.hpp) lives. `line` tells the accesses of one lane apart. 2 to 16 bytes, a power of 2.
void touch(Access kind, const void* address, unsigned bytes, int line);

void barrier();                     // orders memory
int barrier_count(bool predicate);  // of the threads that have not exited
void warp_barrier(unsigned mask);   // orders memory
unsigned lane();                    // 0..31
unsigned ballot(unsigned mask, bool predicate);
/// The value that lane `source` gave; a fault when it is not in the mask or has exited.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source);
/// The values of all lanes of the mask; 0 for the others.
void gather(unsigned mask, std::uint64_t value, std::uint64_t (&all)[32]);

/// d += a b for one warp. `depth` is 16 or 8, the 16-bit operands lie in the fragment layout of
/// PTX's mma.m16n8k16 or m16n8k8. Products and their sum are exact, one rounding when added to d.
void multiply_fragments(bool bf16, int depth, float (&d)[4], const std::uint32_t* a,
                        const std::uint32_t* b);
/// PTX's ldmatrix after each lane has read the 16-byte row it points to: 8 x 8 matrices of 16 bits.
void distribute_matrices(bool transpose, int count, const std::uint32_t (&row)[4],
                         std::uint32_t* fragment);

/// An asynchronous copy: its data is taken at once and lands when its thread waits for its group.
struct Copy {
  void* to = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t group = 0;
  unsigned char data[16] = {};
};
void copy_begin(const Copy& copy);
void copy_commit();
/// The next copy that is to land when all but the last `groups_left` groups have to; false when
/// none is left.
bool copy_landed(unsigned groups_left, Copy& next);

}  // namespace cairn::simt

// Written at every switch of fibers, read by kernels only.
extern cairn::simt::Index threadIdx;
extern cairn::simt::Index blockIdx;
extern cairn::simt::Index blockDim;
extern cairn::simt::Index gridDim;

inline void __syncthreads() { cairn::simt::barrier(); }
inline int __syncthreads_count(int predicate) { return cairn::simt::barrier_count(predicate != 0); }
inline void __syncwarp(unsigned mask = 0xffffffffU) { cairn::simt::warp_barrier(mask); }
inline void __threadfence() {}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return cairn::simt::ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
  return cairn::simt::ballot(mask, predicate != 0) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return cairn::simt::ballot(mask, predicate == 0) == 0 ? 1 : 0;
}

namespace cairn::simt {

template <class T>
T exchange_as(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Folds the values of the mask's lanes, ascending.
template <class T, class Fold>
T reduce(unsigned mask, T value, const Fold& fold) {
  static_assert(sizeof(T) == 4);
  std::uint64_t all[32];
  gather(mask, static_cast<std::uint32_t>(value), all);
  bool first = true;
  T folded{};
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    const T next = static_cast<T>(static_cast<std::uint32_t>(all[i]));
    folded = first ? next : fold(folded, next);
    first = false;
  }
  return folded;
}

/// Replaces *at by fold(*at) as one step; the old value.
template <class T, class Fold>
T atomic_update(T* at, const Fold& fold) {
  T old;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  for (;;) {
    T wanted = fold(old);
    if (__atomic_compare_exchange(at, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return old;
    }
  }
}

}  // namespace cairn::simt

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned w = static_cast<unsigned>(width) - 1;
  return cairn::simt::exchange_as(mask, value,
                                  (cairn::simt::lane() & ~w) | (static_cast<unsigned>(source) & w));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned lane = cairn::simt::lane();
  const unsigned source = lane ^ static_cast<unsigned>(lane_mask);
  const unsigned last = lane | (static_cast<unsigned>(width) - 1);
  return cairn::simt::exchange_as(mask, value, source <= last ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = cairn::simt::lane();
  const unsigned first = lane & ~(static_cast<unsigned>(width) - 1);
  return cairn::simt::exchange_as(mask, value, lane >= first + delta ? lane - delta : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = cairn::simt::lane();
  const unsigned last = lane | (static_cast<unsigned>(width) - 1);
  return cairn::simt::exchange_as(mask, value, lane + delta <= last ? lane + delta : lane);
}

// sm_80 and later only.
template <class T>
T __reduce_add_sync(unsigned mask, T value) {
  return cairn::simt::reduce(mask, value, [](T a, T b) {
    return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value) {
  return cairn::simt::reduce(mask, value, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value) {
  return cairn::simt::reduce(mask, value, [](T a, T b) { return a < b ? b : a; });
}

template <class T>
T atomicAdd(T* at, T value) {
  return cairn::simt::atomic_update(at, [value](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* at, T value) {
  return cairn::simt::atomic_update(at, [value](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* at, T value) {
  return cairn::simt::atomic_update(at, [value](T old) { return value < old ? value : old; });
}
template <class T>
T atomicExch(T* at, T value) {
  return cairn::simt::atomic_update(at, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  return cairn::simt::atomic_update(
      at, [expected, value](T old) { return old == expected ? value : old; });
}
