// SPDX-License-Identifier: Apache-2.0
#include "metrics/table.hpp"

namespace cairn::metrics {
namespace {

using View = std::string_view;

constexpr View kEndpoints[] = {"api", "chat", "completions"};
constexpr View kOutcomes[] = {"stop", "length", "abort", "error"};
constexpr View kReasons[] = {"no_state", "grain", "last_token", "evicted"};
constexpr View kKinds[] = {"branch", "prompt_end", "turn", "answer_end", "planned", "pinned"};
constexpr View kSkips[] = {"duplicate", "no_room", "not_worth"};
constexpr View kTiers[] = {"host", "disk"};
constexpr View kRefused[] = {"corrupt", "foreign", "missing"};
constexpr View kObjects[] = {"kv", "state"};
constexpr View kTemperatures[] = {"cold", "warm"};
constexpr View kPhases[] = {"prefill", "decode", "mixed"};
constexpr View kWheres[] = {"queue", "prefill", "decode"};
constexpr View kActors[] = {"router",      "prefix", "planner", "executor",
                            "checkpoints", "text",   "disk"};

constexpr double kFirstToken[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                  1,     2.5,    5,     10,   30,    60,   120, 300};
constexpr double kInterToken[] = {0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03,
                                  0.05,  0.075,  0.1,   0.2,  0.5,   1,    2.5};
constexpr double kRequest[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,   2,    5,
                               10,   20,   40,   80,  160, 320, 640, 1200, 2400};
constexpr double kTokens[] = {1,    2,    4,    8,    16,    32,    64,    128,    256,   512,
                              1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};
constexpr double kCopy[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                            0.025,  0.05,    0.1,    0.25,  0.5,    1};
constexpr double kSolve[] = {0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                             0.01,    0.025,  0.05,    0.1,    0.25,  0.5,    1};
constexpr double kBatch[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr double kStep[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                            0.1,    0.25,  0.5,    1,     2.5,  5,     10};
constexpr double kShare[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5};

const Label kEndpoint{"endpoint", kEndpoints};
const Label kOutcome{"outcome", kOutcomes};
const Label kReason{"reason", kReasons};
const Label kKind{"kind", kKinds};
const Label kSkip{"reason", kSkips};
const Label kTier{"tier", kTiers};
const Label kRefusal{"reason", kRefused};
const Label kWhat{"what", kObjects};
const Label kCache{"cache", kTemperatures};
const Label kPhase{"phase", kPhases};
const Label kWhere{"where", kWheres};
const Label kActor{"actor", kActors};

Row counter(Id id, View name, View help, std::vector<Label> labels = {}) {
  return {id, Kind::counter, name, help, std::move(labels), {}};
}
Row gauge(Id id, View name, View help, std::vector<Label> labels = {}) {
  return {id, Kind::gauge, name, help, std::move(labels), {}};
}
Row histogram(Id id, View name, View help, std::span<const double> buckets,
              std::vector<Label> labels = {}) {
  return {id, Kind::histogram, name, help, std::move(labels), buckets};
}

std::vector<Row> request_rows() {
  using enum Id;
  return {
      counter(requests_total, "requests_total", "Requests that ended, by how they ended.",
              {kEndpoint, kOutcome}),
      counter(aborted_requests_total, "aborted_requests_total",
              "Requests that a client or the operator ended, by where that caught them.", {kWhere}),
      gauge(num_requests_running, "num_requests_running", "Requests in the batch."),
      gauge(num_requests_waiting, "num_requests_waiting", "Requests admitted and not yet running."),
      counter(prompt_tokens_total, "prompt_tokens_total",
              "Prompt tokens of requests that ran, cached ones included."),
      counter(generation_tokens_total, "generation_tokens_total", "Tokens produced."),
      counter(preemptions_total, "preemptions_total",
              "Running requests that gave their memory back and were computed again."),
      counter(shared_prefill_waits_total, "shared_prefill_waits_total",
              "Requests that waited for another one computing the same prefix."),
      histogram(time_to_first_token_seconds, "time_to_first_token_seconds",
                "From submission to the first token, by whether cached tokens were used.",
                kFirstToken, {kCache}),
      histogram(inter_token_latency_seconds, "inter_token_latency_seconds",
                "Between two tokens of one choice.", kInterToken),
      histogram(e2e_request_latency_seconds, "e2e_request_latency_seconds",
                "From submission to the end of a request.", kRequest),
      histogram(request_queue_time_seconds, "request_queue_time_seconds",
                "From submission until a request is first scheduled.", kRequest),
      histogram(request_prefill_time_seconds, "request_prefill_time_seconds",
                "From being scheduled to the first token.", kRequest),
      histogram(request_decode_time_seconds, "request_decode_time_seconds",
                "From the first token to the last.", kRequest),
      histogram(request_prompt_tokens, "request_prompt_tokens", "Prompt tokens of a request.",
                kTokens),
      histogram(request_generation_tokens, "request_generation_tokens",
                "Tokens produced for a request.", kTokens),
      histogram(request_cached_tokens, "request_cached_tokens",
                "Prompt tokens of a request that the prefix cache gave.", kTokens),
  };
}

std::vector<Row> cache_rows() {
  using enum Id;
  return {
      gauge(kv_cache_usage_perc, "kv_cache_usage_perc",
            "Share of the KV blocks in use, from 0 to 1."),
      counter(prefix_cache_queries_total, "prefix_cache_queries_total",
              "Prompt tokens looked up in the prefix cache, once a request."),
      counter(prefix_cache_hits_total, "prefix_cache_hits_total",
              "Prompt tokens not computed because KV and a state were cached."),
      counter(prefix_cache_kv_matched_tokens_total, "prefix_cache_kv_matched_tokens_total",
              "Prompt tokens whose KV was cached; minus hits: lost for want of a state."),
      counter(prefix_cache_recomputed_tokens_total, "prefix_cache_recomputed_tokens_total",
              "Tokens computed again although an earlier prompt shared them.", {kReason}),
      gauge(state_checkpoints, "state_checkpoints", "Cached recurrent states.", {kKind, kTier}),
      gauge(cache_bytes, "cache_bytes", "Bytes in use, cached or running.", {kWhat, kTier}),
      gauge(cache_bytes_limit, "cache_bytes_limit",
            "Bytes that KV and states may use together; the budget is shared.", {kWhat, kTier}),
      counter(state_checkpoint_stored_total, "state_checkpoint_stored_total",
              "States that entered the cache.", {kKind}),
      counter(state_checkpoint_evicted_total, "state_checkpoint_evicted_total",
              "States dropped to make room.", {kKind}),
      counter(state_checkpoint_skipped_total, "state_checkpoint_skipped_total",
              "States that were planned and not kept; a skip is normal.", {kSkip}),
      histogram(state_restore_seconds, "state_restore_seconds",
                "Copying a cached state in (on a GPU, one in 16 is timed); from disk, with its KV.",
                kCopy, {kTier}),
      histogram(disk_store_seconds, "disk_store_seconds",
                "Writing a state and the KV that was not on disk yet, synced.", kCopy),
      counter(disk_read_waits_total, "disk_read_waits_total",
              "Requests that waited for a state to be read from disk."),
      counter(disk_reads_late_total, "disk_reads_late_total",
              "Reads from disk that took longer than computing: the requests went on without."),
      counter(disk_write_failures_total, "disk_write_failures_total",
              "Writes that the disk or the system refused."),
      counter(disk_refused_files_total, "disk_refused_files_total",
              "Files of the disk cache that were not what was written, and were deleted.",
              {kRefusal}),
  };
}

std::vector<Row> plan_rows() {
  using enum Id;
  return {
      histogram(plan_solve_seconds, "plan_solve_seconds", "Solving for a new plan.", kSolve),
      gauge(plan_states, "plan_states", "States per prompt that the active plan asks for."),
      gauge(plan_expected_recompute_tokens, "plan_expected_recompute_tokens",
            "Tokens a request recomputes under the active plan and the predicted demand."),
      gauge(plan_expected_recompute_seconds, "plan_expected_recompute_seconds",
            "The same in seconds of prefill at the measured speed."),
      gauge(plan_bound_recompute_tokens, "plan_bound_recompute_tokens",
            "No choice among the states that exist recomputes less, under the predicted demand."),
      gauge(plan_ideal_recompute_tokens, "plan_ideal_recompute_tokens",
            "No choice among all places ever seen recomputes less, computed or not."),
      gauge(plan_regret_tokens, "plan_regret_tokens",
            "Predicted recompute of what is kept beyond the best plan that could be found."),
      gauge(plan_gap_ratio, "plan_gap_ratio",
            "Predicted recompute of what is kept beyond the bound, as a share of it."),
      gauge(plan_published_timestamp_seconds, "plan_published_timestamp_seconds",
            "When the active plan was published, as Unix time."),
      counter(predicted_recompute_tokens_total, "predicted_recompute_tokens_total",
              "Tokens that the plan in force expected requests to recompute."),
      counter(realised_recompute_tokens_total, "realised_recompute_tokens_total",
              "Tokens that the same requests did recompute."),
  };
}

std::vector<Row> engine_rows() {
  using enum Id;
  return {
      histogram(batch_size, "batch_size", "Rows of a model step.", kBatch, {kPhase}),
      histogram(step_seconds, "step_seconds", "Duration of a model step.", kStep, {kPhase}),
      counter(step_rows_held_back_total, "step_rows_held_back_total",
              "Rows of prefill left for a later step, so that running streams wait less."),
      histogram(step_prediction_error, "step_prediction_error",
                "How far mixed steps took longer or shorter than expected, as a share of that.",
                kShare),
      counter(actor_restarts_total, "actor_restarts_total", "Actors that died and were replaced.",
              {kActor}),
      counter(actor_messages_sent_total, "actor_messages_sent_total",
              "Messages sent to an actor; minus handled: its mailbox.", {kActor}),
      counter(actor_messages_handled_total, "actor_messages_handled_total",
              "Messages an actor has handled.", {kActor}),
  };
}

}  // namespace

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (auto part : {request_rows(), cache_rows(), plan_rows(), engine_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace cairn::metrics

namespace cairn {

Endpoint endpoint_label(std::string_view name) noexcept {
  if (name == "chat") return Endpoint::chat;
  if (name == "completions") return Endpoint::completions;
  return Endpoint::api;
}

}  // namespace cairn
