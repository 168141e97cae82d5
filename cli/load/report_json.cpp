// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"
#include "cli/load/report.hpp"

namespace cairn::load {
namespace {

void write(JsonWriter& json, const char* name, const Spread& spread) {
  json.key(name).begin_object().key("count").integer(spread.count());
  json.key("mean").number(spread.mean());
  json.key("p50").number(spread.percentile(0.5)).key("p90").number(spread.percentile(0.9));
  json.key("p99").number(spread.percentile(0.99)).key("max").number(spread.most());
  json.key("percentile_error").number(spread.error()).end_object();
}

/// null: not told, not known.
void write(JsonWriter& json, const char* name, const std::optional<std::int64_t>& count) {
  json.key(name);
  count ? json.integer(*count) : json.null();
}

void write(JsonWriter& json, const Group& group) {
  json.begin_object().key("workload").string(group.name);
  json.key("requests").integer(group.requests).key("answered").integer(group.answered);
  json.key("errors").begin_object();
  for (const auto& [kind, count] : group.errors) json.key(kind).integer(count);
  json.end_object().key("messages").begin_object();
  for (const auto& [kind, message] : group.said) json.key(kind).string(message);
  json.end_object();
  write(json, "first_token_ms", group.first_ms);
  write(json, "inter_token_ms", group.gap_ms);
  write(json, "total_ms", group.total_ms);
  write(json, "sent_late_ms", group.late_ms);
  write(json, "prompt_tokens", group.prompt_tokens);
  write(json, "computed_tokens", group.computed);
  write(json, "needed_tokens", group.needed);
  write(json, "answer_tokens", group.answer_tokens);
  json.end_object();
}

void write(JsonWriter& json, const Record& r) {
  json.begin_object().key("workload").string(to_string(r.planned.kind));
  json.key("session").integer(r.planned.session).key("turn").integer(r.planned.turn);
  json.key("warm_up").boolean(r.warm_up);
  json.key("intended_s").number(r.intended).key("sent_s").number(r.sent);
  json.key("first_token_s");
  r.first ? json.number(*r.first) : json.null();
  json.key("ended_s").number(r.ended);
  write(json, "prompt_tokens", r.prompt_tokens);
  write(json, "computed_tokens", r.computed());
  write(json, "needed_tokens", r.needed);
  write(json, "answer_tokens", r.answer_tokens);
  json.key("error").string(r.error).key("message").string(r.message).end_object();
}

void write(JsonWriter& json, const Pass& pass, bool each) {
  json.begin_object().key("name").string(pass.name).key("cache_dropped").boolean(pass.dropped);
  json.key("seconds").number(pass.seconds);
  json.key("workloads").begin_array();
  for (const Group& group : pass.groups) write(json, group);
  json.end_array();
  json.key("server_busy_seconds").number(pass.busy_seconds());
  json.key("server").begin_object();
  for (const auto& [series, grown] : pass.server) json.key(series).number(grown);
  json.end_object();
  if (each) {
    json.key("every_request").boolean(pass.every);
    json.key("requests").begin_array();
    for (const Record& record : pass.records) write(json, record);
    json.end_array();
  }
  json.end_object();
}

}  // namespace

std::string report_json(const Report& report, bool each) {
  JsonWriter json;
  json.begin_object().key("server").string(report.server).key("model").string(report.model);
  json.key("load").begin_object();
  for (const auto& [name, value] : report.facts) json.key(name).string(value);
  json.end_object();
  json.key("ended").string(report.ended);
  json.key("passes").begin_array();
  for (const Pass& pass : report.passes) write(json, pass, each);
  json.end_array();
  json.key("answers_compared").integer(report.compared);
  json.key("answers_different").integer(report.different);
  json.key("answers_not_compared").integer(report.not_compared).end_object();
  return json.take() + "\n";
}

}  // namespace cairn::load
