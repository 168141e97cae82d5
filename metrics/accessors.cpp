// SPDX-License-Identifier: Apache-2.0
// The typed face of the table: one line per metric.
#include "metrics/table.hpp"

namespace cairn {
namespace {

using metrics::Id;

template <class E>
constexpr std::size_t at(E value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

#define CAIRN_COUNTER(name) \
  Metrics::Counter Metrics::name() const noexcept { return counter(Id::name); }
#define CAIRN_COUNTER_BY(name, Label)                          \
  Metrics::Counter Metrics::name(Label label) const noexcept { \
    return counter(Id::name, at(label));                       \
  }
#define CAIRN_GAUGE(name) \
  Metrics::Gauge Metrics::name() const noexcept { return gauge(Id::name); }
#define CAIRN_GAUGE_BY2(name, First, Second)                                \
  Metrics::Gauge Metrics::name(First first, Second second) const noexcept { \
    return gauge(Id::name, at(first), at(second));                          \
  }
#define CAIRN_HISTOGRAM(name) \
  Metrics::Histogram Metrics::name() const noexcept { return histogram(Id::name); }
#define CAIRN_HISTOGRAM_BY(name, Label)                          \
  Metrics::Histogram Metrics::name(Label label) const noexcept { \
    return histogram(Id::name, at(label));                       \
  }

Metrics::Counter Metrics::requests_total(Endpoint endpoint, Outcome outcome) const noexcept {
  return counter(Id::requests_total, at(endpoint), at(outcome));
}
CAIRN_COUNTER_BY(aborted_requests_total, AbortedWhere)
CAIRN_GAUGE(num_requests_running)
CAIRN_GAUGE(num_requests_waiting)
CAIRN_COUNTER(prompt_tokens_total)
CAIRN_COUNTER(generation_tokens_total)
CAIRN_COUNTER(preemptions_total)
CAIRN_COUNTER(shared_prefill_waits_total)
CAIRN_HISTOGRAM_BY(time_to_first_token_seconds, CacheTemperature)
CAIRN_HISTOGRAM(inter_token_latency_seconds)
CAIRN_HISTOGRAM(e2e_request_latency_seconds)
CAIRN_HISTOGRAM(request_queue_time_seconds)
CAIRN_HISTOGRAM(request_prefill_time_seconds)
CAIRN_HISTOGRAM(request_decode_time_seconds)
CAIRN_HISTOGRAM(request_prompt_tokens)
CAIRN_HISTOGRAM(request_generation_tokens)
CAIRN_HISTOGRAM(request_cached_tokens)

CAIRN_GAUGE(kv_cache_usage_perc)
CAIRN_COUNTER(prefix_cache_queries_total)
CAIRN_COUNTER(prefix_cache_hits_total)
CAIRN_COUNTER(prefix_cache_kv_matched_tokens_total)
CAIRN_COUNTER_BY(prefix_cache_recomputed_tokens_total, RecomputeReason)
CAIRN_GAUGE_BY2(state_checkpoints, CheckpointKind, Tier)
CAIRN_GAUGE_BY2(cache_bytes, CacheObject, Tier)
CAIRN_GAUGE_BY2(cache_bytes_limit, CacheObject, Tier)
CAIRN_COUNTER_BY(state_checkpoint_stored_total, CheckpointKind)
CAIRN_COUNTER_BY(state_checkpoint_evicted_total, CheckpointKind)
CAIRN_COUNTER_BY(state_checkpoint_skipped_total, SkipReason)
CAIRN_HISTOGRAM_BY(state_restore_seconds, Tier)
CAIRN_HISTOGRAM(disk_store_seconds)
CAIRN_COUNTER(disk_read_waits_total)
CAIRN_COUNTER(disk_reads_late_total)
CAIRN_COUNTER(disk_write_failures_total)
CAIRN_COUNTER_BY(disk_refused_files_total, RefusedFile)

CAIRN_HISTOGRAM(plan_solve_seconds)
CAIRN_GAUGE(plan_states)
CAIRN_GAUGE(plan_expected_recompute_tokens)
CAIRN_GAUGE(plan_expected_recompute_seconds)
CAIRN_GAUGE(plan_bound_recompute_tokens)
CAIRN_GAUGE(plan_ideal_recompute_tokens)
CAIRN_GAUGE(plan_regret_tokens)
CAIRN_GAUGE(plan_gap_ratio)
CAIRN_GAUGE(plan_published_timestamp_seconds)
CAIRN_COUNTER(predicted_recompute_tokens_total)
CAIRN_COUNTER(realised_recompute_tokens_total)

CAIRN_HISTOGRAM_BY(batch_size, Phase)
CAIRN_HISTOGRAM_BY(step_seconds, Phase)
CAIRN_COUNTER(step_rows_held_back_total)
CAIRN_HISTOGRAM(step_prediction_error)
CAIRN_COUNTER_BY(actor_restarts_total, ActorName)
CAIRN_COUNTER_BY(actor_messages_sent_total, ActorName)
CAIRN_COUNTER_BY(actor_messages_handled_total, ActorName)

}  // namespace cairn
