// SPDX-License-Identifier: Apache-2.0
#include "actors/give_way.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cairn::actors {

void give_way_to_inference() {
  constexpr int kNice = 10;
  // Linux keeps priorities by thread.
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, thread, kNice);  // a refusal costs nothing but the courtesy
}

}  // namespace cairn::actors
