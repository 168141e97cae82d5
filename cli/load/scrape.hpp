// SPDX-License-Identifier: Apache-2.0
// A server's own counters, from its page in the Prometheus text format.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace cairn::load {

/// Values by series ("name{labels}"): those that only grow (_total, _sum, _count), buckets left
/// out. Lines that are none are passed over.
using Series = std::map<std::string, double>;
Series read_series(std::string_view page);

/// By how much each has grown; what did not is left out. Nothing where `before` is not known.
Series growth(const Series& before, const Series& after);

/// The sum of all series of one name.
double sum_of(const Series& series, std::string_view name);

}  // namespace cairn::load
