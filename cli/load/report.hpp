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
  std::map<std::string, std::string> said;     // of an error's kind the first message
  Spread first_ms, gap_ms, total_ms;           // of what was answered; first and total since the
                                               // intended time of sending
  Spread late_ms;                              // by what the client sent later than intended
  // Of what was answered; unset where the server has not told it of all.
  std::optional<std::int64_t> prompt_tokens = 0, computed = 0, answer_tokens = 0;
  std::optional<std::int64_t> needed;  // of a cache without limits; unset: some are not known

  std::int64_t failed() const { return requests - answered; }
  std::uint64_t bytes() const;  // that its distributions take, about
  /// Coarser distributions, where they take more.
  void shrink(std::uint64_t most_bytes);
};

/// Groups of requests as they end, in memory that does not grow with their number. One owner.
class Tally {
 public:
  void add(const Record& record);
  /// What a cache without limits needs, where it is known of every answer among these, which are
  /// all that were added.
  void add_needed(std::span<const Record> records);
  /// "all" first when there are several workloads.
  std::vector<Group> take();

 private:
  Group all_;
  std::map<Kind, Group> kinds_;
};

struct Pass {
  std::string name;             // "first pass", "second pass", "pass 3"
  bool dropped = false;         // the server's cache, before it
  double seconds = 0;           // warm-ups left out
  std::vector<Record> records;  // warm-ups too; what was asked and answered left out
  bool every = true;            // these are all; if not, more of the slow ones are left
  std::vector<Group> groups;
  Series server;  // what its counters grew by, warm-ups left out; empty: there are none

  /// Of the server's model steps; 0: it does not tell.
  double busy_seconds() const { return sum_of(server, "cairn_step_seconds_sum"); }
};

struct Report {
  std::string server, model;
  std::vector<std::pair<std::string, std::string>> facts;  // of the load: name, value
  std::vector<Pass> passes;
  std::int64_t compared = 0;      // answers to a prompt that had been answered before
  std::int64_t different = 0;     // of these
  std::int64_t not_compared = 0;  // more than there was memory for
  std::string ended = "complete";
};

/// One JSON object and a line end; with `each` every request of every pass.
std::string report_json(const Report& report, bool each);
/// Sentences on what in it is not exact, each with a line end; "" when all is.
std::string exactness(const Report& report);
/// How long a pass took, its rates and how busy the server was.
std::string summary(const Pass& pass);
/// For a terminal.
std::string report_text(const Report& report);
/// One HTML page that needs nothing else.
std::string report_html(const Report& report);

}  // namespace cairn::load
