// SPDX-License-Identifier: Apache-2.0
// Priority of threads that work beside inference.
#pragma once

namespace cairn::actors {

/// Of the calling thread, for good: where cores are short, steps of the model come before its work.
void give_way_to_inference();

}  // namespace cairn::actors
