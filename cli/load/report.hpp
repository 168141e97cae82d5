// SPDX-License-Identifier: Apache-2.0
// What a load showed: figures, and how people and programs read them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/load/record.hpp"
#include "cli/load/scrape.hpp"
#include "cli/load/spread.hpp"

namespace cairn::load {

/// Requests of one workload, warm-ups left out.
struct Group {
  std::string name;  // "all" for all
  std::int64_t requests = 0, answered = 0;
  std::map<std::string, std::int64_t> errors;  // by kind
  Spread first_ms, gap_ms, total_ms;           // of what was answered; first and total since the
                                               // intended time of sending
  Spread late_ms;                              // by what the client sent later than intended
  std::int64_t prompt_tokens = 0, computed = 0, answer_tokens = 0;
  std::optional<std::int64_t> needed;  // of a cache without limits; unset: some are not known

  std::int64_t failed() const { return requests - answered; }
};

/// "all" first when there are several workloads.
std::vector<Group> groups_of(std::span<const Record> records);

struct Pass {
  std::string name;      // "first pass", "second pass", "pass 3"
  bool dropped = false;  // the server's cache, before it
  double seconds = 0;    // warm-ups left out
  std::vector<Record> records;
  std::vector<Group> groups;
  Series server;  // what its counters grew by, warm-ups left out; empty: there are none

  /// Of the server's model steps; 0: it does not tell.
  double busy_seconds() const { return sum_of(server, "cairn_step_seconds_sum"); }
};

struct Report {
  std::string server, model;
  std::vector<std::pair<std::string, std::string>> facts;  // of the load: name, value
  std::vector<Pass> passes;
  std::int64_t compared = 0;   // answers to a prompt that had been answered before
  std::int64_t different = 0;  // of these
  std::string ended = "complete";
};

/// Answers beside earlier ones to the same request, over all passes, warm-ups too.
void compare_answers(Report& report);

/// One JSON object and a line end; with `each` every request of every pass.
std::string report_json(const Report& report, bool each);
/// For a terminal.
std::string report_text(const Report& report);
/// One HTML page that needs nothing else.
std::string report_html(const Report& report);

}  // namespace cairn::load
