// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json_text.hpp"

namespace cairn::engine {
using cairn::JsonWriter;
}
