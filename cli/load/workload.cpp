// SPDX-License-Identifier: Apache-2.0
#include "cli/load/workload.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "cli/load/random.hpp"

namespace cairn::load {
namespace {

void require(bool possible, const char* what) {
  if (!possible) throw LoadError(what);
}

}  // namespace

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::documents:
      return "documents";
    case Kind::overlaps:
      return "overlaps";
    case Kind::chat:
      return "chat";
    case Kind::short_prompts:
      return "short";
  }
  return "?";
}

Kind kind_of(const std::string& name) {
  for (const Kind kind : kKinds) {
    if (name == to_string(kind)) return kind;
  }
  throw LoadError("'" + name + "' is no workload: there are documents, overlaps, chat and short");
}

Workload::Workload(WorkloadOptions options) : options_(std::move(options)), draw_(options_.seed) {
  const WorkloadOptions& o = options_;
  require(o.vocabulary > 0, "a workload needs a vocabulary of at least one token");
  require(o.documents > 0 && o.questions > 0 && o.conversations > 0 && o.turns > 0 &&
              o.document_tokens > 0 && o.question_tokens > 0 && o.opening_tokens > 0 &&
              o.message_tokens > 0 && o.short_tokens > 0,
          "numbers and sizes of a workload are at least 1");
  double sum = 0;
  for (const double weight : o.weights) {
    require(std::isfinite(weight) && weight >= 0, "weights of a mix are numbers from 0");
    sum += weight;
  }
  require(sum > 0, "one weight of a mix has to be above 0");
  require(!o.leave.empty(), "prompts have to leave their document somewhere");
  for (const double percent : o.leave) {
    require(percent >= 0 && percent <= 100, "prompts leave a document at 0 to 100 % of it");
  }
  for (std::size_t i = 0; i < random_.size(); ++i) random_[i].seed(o.seed * kKinds.size() + i);
}

Tokens Workload::fresh(Kind kind, std::int64_t count) {
  Tokens out(static_cast<std::size_t>(count));
  for (std::int32_t& token : out) {
    token = static_cast<std::int32_t>(below(random(kind), options_.vocabulary));
  }
  return out;
}

Planned Workload::next() {
  const double sum = std::accumulate(options_.weights.begin(), options_.weights.end(), 0.0);
  double at = unit(draw_) * sum;
  Kind kind = Kind::documents;
  for (const Kind each : kKinds) {
    const double weight = options_.weights[static_cast<std::size_t>(each)];
    if (weight <= 0) continue;
    kind = each;
    if (at < weight) break;
    at -= weight;
  }
  switch (kind) {
    case Kind::documents:
      return question();
    case Kind::overlaps:
      return departure();
    case Kind::chat:
      return message();
    case Kind::short_prompts:
      break;
  }
  return short_prompt();
}

Planned Workload::question() {
  documents_.resize(static_cast<std::size_t>(options_.documents));
  Document& document =
      documents_[static_cast<std::size_t>(below(random(Kind::documents), options_.documents))];
  if (document.asked == options_.questions) document = {};
  if (document.asked == 0) document.tokens = fresh(Kind::documents, options_.document_tokens);
  ++document.asked;
  Planned planned;
  planned.tokens = document.tokens;
  const Tokens asked = fresh(Kind::documents, options_.question_tokens);
  planned.tokens.insert(planned.tokens.end(), asked.begin(), asked.end());
  return planned;
}

// As long as the first look, so that what differs is only what is shared.
Planned Workload::departure() {
  std::int64_t shared = options_.document_tokens;
  if (leaving_.empty()) {
    left_ = fresh(Kind::overlaps, options_.document_tokens);
    for (const double percent : options_.leave) {
      leaving_.push_back(std::llround(percent / 100 * options_.document_tokens));
    }
    for (std::size_t i = leaving_.size(); i > 1; --i) {
      const auto other = below(random(Kind::overlaps), static_cast<std::int64_t>(i));
      std::swap(leaving_[i - 1], leaving_[static_cast<std::size_t>(other)]);
    }
  } else {
    shared = leaving_.front();
    leaving_.pop_front();
  }
  Planned planned;
  planned.kind = Kind::overlaps;
  planned.tokens.assign(left_.begin(), left_.begin() + shared);
  const Tokens rest =
      fresh(Kind::overlaps, options_.document_tokens + options_.question_tokens - shared);
  planned.tokens.insert(planned.tokens.end(), rest.begin(), rest.end());
  return planned;
}

// Conversations go on by turns; when all have ended others begin.
Planned Workload::message() {
  const std::int64_t round = messages_ / options_.conversations;
  Planned planned;
  planned.kind = Kind::chat;
  planned.turn = static_cast<std::int32_t>(round % options_.turns);
  planned.last = planned.turn + 1 == options_.turns;
  planned.session =
      round / options_.turns * options_.conversations + messages_ % options_.conversations;
  ++messages_;
  planned.tokens =
      fresh(Kind::chat, planned.turn == 0 ? options_.opening_tokens : options_.message_tokens);
  return planned;
}

Planned Workload::short_prompt() {
  Planned planned;
  planned.kind = Kind::short_prompts;
  planned.tokens = fresh(Kind::short_prompts, options_.short_tokens);
  return planned;
}

}  // namespace cairn::load
