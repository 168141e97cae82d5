// SPDX-License-Identifier: Apache-2.0
// Loads, stores and asynchronous copies. In the test harness these are the accesses that are
// counted and checked for alignment; a plain dereference works too, unseen.
//
// `line` is the caller's, by default: it tells the accesses of a lane apart when the harness
// gathers those of a warp. On the device it is not there.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {

template <class T>
constexpr bool kMovable = sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16;

#if defined(__CUDACC__)

namespace detail {
template <int kBytes>
struct Words;
template <>
struct Words<2> {
  using Type = unsigned short;
};
template <>
struct Words<4> {
  using Type = unsigned;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};

template <class To, class From>
__device__ __forceinline__ To reinterpret(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace detail

/// Memory that no thread of this launch writes: may stay in the read-only cache.
template <class T>
__device__ __forceinline__ T load_read_only(const T* p) {
  static_assert(kMovable<T>);
  using Words = typename detail::Words<sizeof(T)>::Type;
  return detail::reinterpret<T>(__ldg(reinterpret_cast<const Words*>(p)));
}
// Left to itself the compiler splits some accesses of 8 and 16 bytes, so these are spelled out. All
// of them keep their order with each other and with barriers.
template <class T>
__device__ __forceinline__ T load_global(const T* p) {
  static_assert(kMovable<T>);
  if constexpr (sizeof(T) == 16) {
    uint4 w;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(__cvta_generic_to_global(p))
                 : "memory");
    return detail::reinterpret<T>(w);
  } else if constexpr (sizeof(T) == 8) {
    uint2 w;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];"
                 : "=r"(w.x), "=r"(w.y)
                 : "l"(__cvta_generic_to_global(p))
                 : "memory");
    return detail::reinterpret<T>(w);
  } else {
    return *p;
  }
}
template <class T>
__device__ __forceinline__ void store_global(T* p, const T& value) {
  static_assert(kMovable<T>);
  if constexpr (sizeof(T) == 16) {
    const auto w = detail::reinterpret<uint4>(value);
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    const auto w = detail::reinterpret<uint2>(value);
    asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(__cvta_generic_to_global(p)), "r"(w.x),
                 "r"(w.y)
                 : "memory");
  } else {
    *p = value;
  }
}
template <class T>
__device__ __forceinline__ T load_shared(const T* p) {
  static_assert(kMovable<T>);
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(p));
  if constexpr (sizeof(T) == 16) {
    uint4 w;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "r"(from)
                 : "memory");
    return detail::reinterpret<T>(w);
  } else if constexpr (sizeof(T) == 8) {
    uint2 w;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(w.x), "=r"(w.y) : "r"(from) : "memory");
    return detail::reinterpret<T>(w);
  } else {
    return *p;
  }
}
template <class T>
__device__ __forceinline__ void store_shared(T* p, const T& value) {
  static_assert(kMovable<T>);
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(p));
  if constexpr (sizeof(T) == 16) {
    const auto w = detail::reinterpret<uint4>(value);
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(w.x), "r"(w.y), "r"(w.z),
                 "r"(w.w)
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    const auto w = detail::reinterpret<uint2>(value);
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(to), "r"(w.x), "r"(w.y) : "memory");
  } else {
    *p = value;
  }
}

/// Starts a copy of kBytes from global to shared memory; zeros instead when not `live` (`global` is
/// then not read). It may land at any time up to this thread's copy_async_wait for its group. sm_75
/// copies at once.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool live = true) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int live_bytes = live ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                 "r"(live_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global),
                 "n"(kBytes), "r"(live_bytes)
                 : "memory");
  }
#else
  using Words = typename detail::Words<kBytes>::Type;
  *static_cast<Words*>(shared) = live ? *static_cast<const Words*>(global) : Words{};
#endif
}
/// Closes the group of this thread's copies since the last commit.
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most the kGroups last groups of this thread are still on their way. Other threads
/// see the data after a barrier.
template <int kGroups>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

#else

template <class T>
T load_as(simt::Access kind, const T* p, int line) {
  static_assert(kMovable<T>);
  simt::touch(kind, p, sizeof(T), line);
  return *p;
}
template <class T>
void store_as(simt::Access kind, T* p, const T& value, int line) {
  static_assert(kMovable<T>);
  simt::touch(kind, p, sizeof(T), line);
  *p = value;
}

template <class T>
T load_read_only(const T* p, int line = __builtin_LINE()) {
  return load_as(simt::Access::read_only_load, p, line);
}
template <class T>
T load_global(const T* p, int line = __builtin_LINE()) {
  return load_as(simt::Access::global_load, p, line);
}
template <class T>
void store_global(T* p, const T& value, int line = __builtin_LINE()) {
  store_as(simt::Access::global_store, p, value, line);
}
template <class T>
T load_shared(const T* p, int line = __builtin_LINE()) {
  return load_as(simt::Access::shared_load, p, line);
}
template <class T>
void store_shared(T* p, const T& value, int line = __builtin_LINE()) {
  store_as(simt::Access::shared_store, p, value, line);
}

/// Until it lands the destination holds 0xff: reading too early shows, and so does starting the
/// copy while others still read what was there.
template <int kBytes>
void copy_async(void* shared, const void* global, bool live = true, int line = __builtin_LINE()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  simt::touch(simt::Access::shared_store, shared, kBytes, line);
  simt::Copy copy;
  copy.to = shared;
  copy.bytes = kBytes;
  if (live) {
    simt::touch(simt::Access::read_only_load, global, kBytes, line);
    std::memcpy(copy.data, global, kBytes);
  }
  std::memset(shared, 0xff, kBytes);
  simt::copy_begin(copy);
}
inline void copy_async_commit() { simt::copy_commit(); }
template <int kGroups>
void copy_async_wait() {
  simt::Copy copy;
  while (simt::copy_landed(kGroups, copy)) std::memcpy(copy.to, copy.data, copy.bytes);
}

#endif

}  // namespace cairn::kernels::cuda
