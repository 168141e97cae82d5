// SPDX-License-Identifier: Apache-2.0
// Operations of a warp. Each lane leaves a request on its own stack; the last one carries the
// operation out for all.
#include <cstring>

#include "kernels/dtype.hpp"
#include "tests/simt/harness/machine.hpp"

namespace cairn::simt {
namespace {

struct Exchange {
  std::uint64_t value;
  unsigned source;
  bool found;
};

void complete_exchange(void* const (&requests)[32]) {
  std::uint64_t values[32] = {};
  for (int i = 0; i < 32; ++i) {
    if (requests[i] != nullptr) values[i] = static_cast<const Exchange*>(requests[i])->value;
  }
  for (void* request : requests) {
    if (request == nullptr) continue;
    auto* lane = static_cast<Exchange*>(request);
    lane->found = requests[lane->source % 32] != nullptr;
    lane->value = values[lane->source % 32];
  }
}

struct Ballot {
  bool predicate;
  unsigned votes;
};

void complete_ballot(void* const (&requests)[32]) {
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if (requests[i] != nullptr && static_cast<const Ballot*>(requests[i])->predicate) {
      votes |= 1U << i;
    }
  }
  for (void* request : requests) {
    if (request != nullptr) static_cast<Ballot*>(request)->votes = votes;
  }
}

struct Gather {
  std::uint64_t value;
  std::uint64_t* all;
};

void complete_gather(void* const (&requests)[32]) {
  for (void* request : requests) {
    if (request == nullptr) continue;
    std::uint64_t* all = static_cast<const Gather*>(request)->all;
    for (int i = 0; i < 32; ++i) {
      all[i] = requests[i] == nullptr ? 0 : static_cast<const Gather*>(requests[i])->value;
    }
  }
}

struct Multiply {
  bool bf16;
  int depth;
  float* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

/// For the operations that hardware defines for whole warps only.
void need_all_lanes(void* const (&requests)[32]) {
  for (void* request : requests) {
    if (request == nullptr)
      fault("or its warp calls an operation of all lanes, and some have exited");
  }
}

double half_of(std::uint32_t word, int which, bool bf16) {
  const auto bits = static_cast<std::uint16_t>(word >> (16 * which));
  return static_cast<double>(bf16 ? to_float(Bf16{bits}) : to_float(F16{bits}));
}

// Element (row, k) of a lies in lane 4 (row % 8) + k % 8 / 2, word row / 8 + 2 (k / 8).
void complete_multiply(void* const (&requests)[32]) {
  need_all_lanes(requests);
  const auto* first = static_cast<const Multiply*>(requests[0]);
  double a[16][16];
  double b[16][8];
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < first->depth; ++k) {
      const auto* lane = static_cast<const Multiply*>(requests[row % 8 * 4 + k % 8 / 2]);
      a[row][k] = half_of(lane->a[row / 8 + k / 8 * 2], k % 2, first->bf16);
    }
  }
  for (int k = 0; k < first->depth; ++k) {
    for (int column = 0; column < 8; ++column) {
      const auto* lane = static_cast<const Multiply*>(requests[column * 4 + k % 8 / 2]);
      b[k][column] = half_of(lane->b[k / 8], k % 2, first->bf16);
    }
  }
  for (int row = 0; row < 16; ++row) {
    double sum[8] = {};
    for (int k = 0; k < first->depth; ++k) {
      for (int column = 0; column < 8; ++column) sum[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < 8; ++column) {
      const auto* lane = static_cast<const Multiply*>(requests[row % 8 * 4 + column / 2]);
      float& d = lane->d[row / 8 * 2 + column % 2];
      d = static_cast<float>(static_cast<double>(d) + sum[column]);
    }
  }
}

struct Matrices {
  bool transpose;
  int count;
  const std::uint32_t* row;
  std::uint32_t* fragment;
};

std::uint32_t element(void* const (&requests)[32], int matrix, int row, int column) {
  const std::uint32_t* words = static_cast<const Matrices*>(requests[matrix * 8 + row])->row;
  return words[column / 2] >> (column % 2 * 16) & 0xffffU;
}

void complete_matrices(void* const (&requests)[32]) {
  need_all_lanes(requests);
  for (int i = 0; i < 32; ++i) {
    const auto* lane = static_cast<const Matrices*>(requests[i]);
    for (int m = 0; m < lane->count; ++m) {
      const int row = i / 4;
      const int column = i % 4 * 2;
      const std::uint32_t low =
          lane->transpose ? element(requests, m, column, row) : element(requests, m, row, column);
      const std::uint32_t high = lane->transpose ? element(requests, m, column + 1, row)
                                                 : element(requests, m, row, column + 1);
      lane->fragment[m] = low | high << 16;
    }
  }
}

}  // namespace

void warp_barrier(unsigned mask) {
  char request = 0;
  machine().warp_operation(mask, nullptr, &request, true);
}

unsigned ballot(unsigned mask, bool predicate) {
  Ballot request{predicate, 0};
  machine().warp_operation(mask, complete_ballot, &request, false);
  return request.votes;
}

std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source) {
  Exchange request{value, source, false};
  machine().warp_operation(mask, complete_exchange, &request, false);
  if (!request.found) fault("reads the value of lane %u, which gave none", source % 32);
  return request.value;
}

void gather(unsigned mask, std::uint64_t value, std::uint64_t (&all)[32]) {
  Gather request{value, all};
  machine().warp_operation(mask, complete_gather, &request, false);
}

void multiply_fragments(bool bf16, int depth, float (&d)[4], const std::uint32_t* a,
                        const std::uint32_t* b) {
  Multiply request{bf16, depth, d, a, b};
  machine().warp_operation(0xffffffffU, complete_multiply, &request, false);
}

void distribute_matrices(bool transpose, int count, const std::uint32_t (&row)[4],
                         std::uint32_t* fragment) {
  Matrices request{transpose, count, row, fragment};
  machine().warp_operation(0xffffffffU, complete_matrices, &request, false);
}

void copy_begin(const Copy& copy) {
  Thread& self = machine().self();
  if (self.copy_count == Thread::kMaxCopies) {
    fault("has %u asynchronous copies under way", Thread::kMaxCopies);
  }
  Copy& place = self.copies[(self.first_copy + self.copy_count++) % Thread::kMaxCopies];
  place = copy;
  place.group = self.open_group;
}

void copy_commit() { ++machine().self().open_group; }

bool copy_landed(unsigned groups_left, Copy& next) {
  Thread& self = machine().self();
  if (self.copy_count == 0) return false;
  const Copy& oldest = self.copies[self.first_copy];
  if (oldest.group + groups_left >= self.open_group) return false;
  next = oldest;
  self.first_copy = (self.first_copy + 1) % Thread::kMaxCopies;
  --self.copy_count;
  return true;
}

}  // namespace cairn::simt
