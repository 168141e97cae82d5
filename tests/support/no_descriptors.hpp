// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include "tests/support/catch.hpp"

namespace cairn::testing {

/// While it lives the process can open no further file or socket. Not under UBSan: it finds out
/// through a pipe whether an object's memory can be read, and without one takes it for foreign.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit none = before_;
    none.rlim_cur = 3;  // the standard streams have these, so a number that is freed is of no use
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace cairn::testing
