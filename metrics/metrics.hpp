// SPDX-License-Identifier: Apache-2.0
// Every metric that cairn exports, as typed handles. Names, label values and buckets are in
// table.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

// Declared, not included: the exporter stays inside this folder.
namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace cairn {

// Closed label sets. The spelling of a value is its name here.
enum class Endpoint : std::uint8_t { api, chat, completions };
enum class Outcome : std::uint8_t { stop, length, abort, error };
enum class RecomputeReason : std::uint8_t { no_state, grain, last_token, evicted };
/// In the order of engine::StateKind.
enum class CheckpointKind : std::uint8_t { branch, prompt_end, turn, answer_end, planned, pinned };
enum class SkipReason : std::uint8_t { duplicate, no_room, not_worth };
enum class Tier : std::uint8_t { host, disk };
enum class RefusedFile : std::uint8_t { corrupt, foreign, missing };
enum class CacheObject : std::uint8_t { kv, state };
enum class CacheTemperature : std::uint8_t { cold, warm };
enum class Phase : std::uint8_t { prefill, decode, mixed };
enum class AbortedWhere : std::uint8_t { queue, prefill, decode };
enum class ActorName : std::uint8_t { router, prefix, planner, executor, checkpoints, text, disk };

/// "chat" -> Endpoint::chat; anything unknown is `api`, so that no client can make a series.
Endpoint endpoint_label(std::string_view name) noexcept;

class Metrics;

namespace metrics {

/// A series. Copies refer to the same one; thread-safe; never throws. Negative and NaN steps are
/// dropped.
class Counter {
 public:
  void add(double by = 1) const noexcept;
  double value() const noexcept;

 private:
  friend class cairn::Metrics;
  explicit Counter(prometheus::Counter* cell) : cell_(cell) {}
  prometheus::Counter* cell_;
};

class Gauge {
 public:
  void set(double value) const noexcept;
  double value() const noexcept;

 private:
  friend class cairn::Metrics;
  explicit Gauge(prometheus::Gauge* cell) : cell_(cell) {}
  prometheus::Gauge* cell_;
};

class Histogram {
 public:
  void observe(double value) const noexcept;
  std::uint64_t count() const noexcept;
  double sum() const noexcept;

 private:
  friend class cairn::Metrics;
  explicit Histogram(prometheus::Histogram* cell) : cell_(cell) {}
  prometheus::Histogram* cell_;
};

enum class Id : std::uint8_t;  // table.hpp

}  // namespace metrics

/// The registry. All series exist from construction on (at 0), so rates are right from the first
/// scrape. Thread-safe; outlives its handles' use. Accessors look up an array and take no lock; a
/// histogram locks only itself.
class Metrics {
 public:
  using Counter = metrics::Counter;
  using Gauge = metrics::Gauge;
  using Histogram = metrics::Histogram;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Requests
  Counter requests_total(Endpoint endpoint, Outcome outcome) const noexcept;
  Counter aborted_requests_total(AbortedWhere where) const noexcept;
  Gauge num_requests_running() const noexcept;
  Gauge num_requests_waiting() const noexcept;
  Counter prompt_tokens_total() const noexcept;
  Counter generation_tokens_total() const noexcept;
  Counter preemptions_total() const noexcept;
  Counter shared_prefill_waits_total() const noexcept;
  Histogram time_to_first_token_seconds(CacheTemperature cache) const noexcept;
  Histogram inter_token_latency_seconds() const noexcept;
  Histogram e2e_request_latency_seconds() const noexcept;
  Histogram request_queue_time_seconds() const noexcept;
  Histogram request_prefill_time_seconds() const noexcept;
  Histogram request_decode_time_seconds() const noexcept;
  Histogram request_prompt_tokens() const noexcept;
  Histogram request_generation_tokens() const noexcept;
  Histogram request_cached_tokens() const noexcept;

  // Prefix cache
  Gauge kv_cache_usage_perc() const noexcept;
  Counter prefix_cache_queries_total() const noexcept;
  Counter prefix_cache_hits_total() const noexcept;
  Counter prefix_cache_kv_matched_tokens_total() const noexcept;
  Counter prefix_cache_recomputed_tokens_total(RecomputeReason reason) const noexcept;
  Gauge state_checkpoints(CheckpointKind kind, Tier tier = Tier::host) const noexcept;
  Gauge cache_bytes(CacheObject what, Tier tier = Tier::host) const noexcept;
  Gauge cache_bytes_limit(CacheObject what, Tier tier = Tier::host) const noexcept;
  Counter state_checkpoint_stored_total(CheckpointKind kind) const noexcept;
  Counter state_checkpoint_evicted_total(CheckpointKind kind) const noexcept;
  Counter state_checkpoint_skipped_total(SkipReason reason) const noexcept;
  Histogram state_restore_seconds(Tier tier = Tier::host) const noexcept;
  Histogram disk_store_seconds() const noexcept;
  Counter disk_read_waits_total() const noexcept;
  Counter disk_reads_late_total() const noexcept;
  Counter disk_write_failures_total() const noexcept;
  Counter disk_refused_files_total(RefusedFile reason) const noexcept;

  // Plan
  Histogram plan_solve_seconds() const noexcept;
  Gauge plan_states() const noexcept;
  Gauge plan_expected_recompute_tokens() const noexcept;
  Gauge plan_expected_recompute_seconds() const noexcept;
  Gauge plan_bound_recompute_tokens() const noexcept;
  Gauge plan_ideal_recompute_tokens() const noexcept;
  Gauge plan_regret_tokens() const noexcept;
  Gauge plan_gap_ratio() const noexcept;
  Gauge plan_published_timestamp_seconds() const noexcept;
  Counter predicted_recompute_tokens_total() const noexcept;
  Counter realised_recompute_tokens_total() const noexcept;

  // Engine
  Histogram batch_size(Phase phase) const noexcept;
  Histogram step_seconds(Phase phase) const noexcept;
  Counter step_rows_held_back_total() const noexcept;
  Histogram step_prediction_error() const noexcept;
  Counter actor_restarts_total(ActorName actor) const noexcept;
  Counter actor_messages_sent_total(ActorName actor) const noexcept;
  Counter actor_messages_handled_total(ActorName actor) const noexcept;

  // Facts that dashboards join on; gauges that are 1. Set once at start; a second call is ignored.
  void set_build_info(std::string_view version, std::string_view backend,
                      std::string_view isa) noexcept;
  void set_model_info(std::string_view name, std::string_view shape) noexcept;
  void set_cache_config_info(std::int32_t grain, std::uint64_t cache_bytes, std::string_view policy,
                             std::string_view kv) noexcept;

  /// The page for /metrics, process_* metrics included. Takes no lock that serving waits for longer
  /// than one series.
  std::string render() const;
  /// What goes with it as Content-Type.
  static std::string_view content_type() noexcept;

 private:
  struct Impl;
  Counter counter(metrics::Id id, std::size_t first = 0, std::size_t second = 0) const noexcept;
  Gauge gauge(metrics::Id id, std::size_t first = 0, std::size_t second = 0) const noexcept;
  Histogram histogram(metrics::Id id, std::size_t first = 0) const noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
