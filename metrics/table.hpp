// SPDX-License-Identifier: Apache-2.0
// The table behind Metrics: one row per metric, in the order of Id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/metrics.hpp"

namespace cairn::metrics {

enum class Id : std::uint8_t {
  requests_total,
  aborted_requests_total,
  num_requests_running,
  num_requests_waiting,
  prompt_tokens_total,
  generation_tokens_total,
  preemptions_total,
  shared_prefill_waits_total,
  time_to_first_token_seconds,
  inter_token_latency_seconds,
  e2e_request_latency_seconds,
  request_queue_time_seconds,
  request_prefill_time_seconds,
  request_decode_time_seconds,
  request_prompt_tokens,
  request_generation_tokens,
  request_cached_tokens,
  kv_cache_usage_perc,
  prefix_cache_queries_total,
  prefix_cache_hits_total,
  prefix_cache_kv_matched_tokens_total,
  prefix_cache_recomputed_tokens_total,
  state_checkpoints,
  cache_bytes,
  cache_bytes_limit,
  state_checkpoint_stored_total,
  state_checkpoint_evicted_total,
  state_checkpoint_skipped_total,
  state_restore_seconds,
  disk_store_seconds,
  disk_read_waits_total,
  disk_reads_late_total,
  disk_write_failures_total,
  disk_refused_files_total,
  plan_solve_seconds,
  plan_states,
  plan_expected_recompute_tokens,
  plan_expected_recompute_seconds,
  plan_bound_recompute_tokens,
  plan_ideal_recompute_tokens,
  plan_regret_tokens,
  plan_gap_ratio,
  plan_published_timestamp_seconds,
  predicted_recompute_tokens_total,
  realised_recompute_tokens_total,
  batch_size,
  step_seconds,
  step_rows_held_back_total,
  step_prediction_error,
  actor_restarts_total,
  actor_messages_sent_total,
  actor_messages_handled_total,
};

enum class Kind : std::uint8_t { counter, gauge, histogram };

/// A label and all the values it can have; the index is the enum's value.
struct Label {
  std::string_view name;
  std::span<const std::string_view> values;
};

struct Row {
  Id id;
  Kind kind;
  std::string_view name;  // without the prefix "cairn_"
  std::string_view help;
  std::vector<Label> labels;  // at most two
  std::span<const double> buckets;
};

/// All rows; row i has id i.
const std::vector<Row>& table();

}  // namespace cairn::metrics
