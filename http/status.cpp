// SPDX-License-Identifier: Apache-2.0
#include "http/status.hpp"

#include <ctime>

#include "base/json_text.hpp"

namespace cairn::http {
namespace {

void write_model(JsonWriter& json, const EngineInfo& info) {
  json.key("model").begin_object();
  json.key("name").string(info.model_name).key("shape").string(info.shape);
  json.key("device").string(info.device).key("isa").string(info.isa);
  json.key("weights").string(info.weights).key("kv").string(info.kv);
  json.key("activations").string(info.activations).key("gemm").string(info.gemm);
  json.key("threads").integer(info.threads);
  json.key("context_length").integer(info.context_length);
  json.end_object();
}

void write_cache(JsonWriter& json, const EngineInfo& info, const EngineStats& stats) {
  json.key("cache").begin_object();
  json.key("policy").string(info.policy);
  json.key("scope").string(info.cache_scope);
  json.key("bytes_limit").unsigned_integer(info.cache_bytes);
  json.key("kv_bytes").unsigned_integer(stats.kv_bytes);
  json.key("state_bytes").unsigned_integer(stats.state_bytes);
  json.key("kv_blocks").integer(stats.kv_blocks);
  json.key("states").integer(stats.states);
  json.key("cached_states").integer(stats.cached_states);
  json.key("plan_epoch").unsigned_integer(stats.plan_epoch);
  json.key("price").number(stats.cache_price);
  json.key("disk_states").integer(stats.disk_states);
  json.key("disk_bytes").unsigned_integer(stats.disk_bytes);
  json.key("disk_bytes_limit").unsigned_integer(info.disk_bytes);
  json.end_object();
}

// Tokens of predicted recompute a request, as kept and as it could be kept (metrics/metrics.hpp).
void write_certificate(JsonWriter& json, const Metrics& metrics) {
  json.key("certificate").begin_object();
  json.key("states").number(metrics.plan_states().value());
  json.key("expected_recompute_tokens").number(metrics.plan_expected_recompute_tokens().value());
  json.key("bound_tokens").number(metrics.plan_bound_recompute_tokens().value());
  json.key("ideal_tokens").number(metrics.plan_ideal_recompute_tokens().value());
  json.key("regret_tokens").number(metrics.plan_regret_tokens().value());
  json.key("gap_ratio").number(metrics.plan_gap_ratio().value());
  json.end_object();
}

void write_counters(JsonWriter& json, const Metrics& metrics) {
  json.key("tokens").begin_object();
  json.key("prompt").number(metrics.prompt_tokens_total().value());
  json.key("generated").number(metrics.generation_tokens_total().value());
  json.key("looked_up").number(metrics.prefix_cache_queries_total().value());
  json.key("cached").number(metrics.prefix_cache_hits_total().value());
  json.end_object();
}

}  // namespace

std::string status_body(const State& state) {
  const EngineInfo& info = state.engine->info();
  const EngineStats stats = state.engine->stats();
  const Health health = state.engine->health();
  JsonWriter json;
  json.begin_object();
  json.key("version").string(state.options.version);
  json.key("ready").boolean(health.ready && !state.draining);
  json.key("reason").string(health.reason);
  json.key("uptime_seconds").integer(std::time(nullptr) - state.started_unix);
  write_model(json, info);
  json.key("requests").begin_object();
  json.key("running").integer(stats.running).key("waiting").integer(stats.waiting).end_object();
  write_cache(json, info, stats);
  if (state.metrics) {
    write_certificate(json, *state.metrics);
    write_counters(json, *state.metrics);
  }
  json.key("limits").begin_object();
  for (const auto& [name, value] : info.limits) json.key(name).string(value);
  for (const auto& [name, value] : limits_of(state.options)) json.key(name).string(value);
  json.end_object().end_object();
  return json.take();
}

}  // namespace cairn::http
