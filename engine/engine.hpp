// SPDX-License-Identifier: Apache-2.0
// The public API: a Qwen3.5 engine in a library. HTTP, the command line and programs that embed
// cairn see this header and nothing below it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace cairn {

class Metrics;  // metrics/metrics.hpp

/// Progress of a load: `done` of `total` bytes of one stage ("weights").
using LoadProgress =
    std::function<void(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

/// Every limit has a default and is reported at start (EngineInfo::limits).
struct EngineOptions {
  std::string model = "demo";     // a Hugging Face directory, or "demo": the embedded model
  std::string served_name;        // what /v1/models says; "" takes the directory's name
  std::string policy = "forest";  // where states are kept: `cairn serve --help` lists the rules
  // auto (the first CUDA device that works, else the CPU) | cpu | cuda (the first) | cuda:N
  std::string device = "auto";
  std::string gemm = "exact";    // of a CUDA device: exact | cublaslt
  std::string weights = "bf16";  // in memory: bf16 | int8 | int4 (the CPU)
  // Of the CPU's integer weights, what was quantised for the next start: auto (a file beside the
  // model) | off | a directory
  std::string weights_cache = "auto";
  std::string
      gemm_record;  // cublaslt's chosen algorithms; "": beside disk_dir, without one nowhere
  // KV and states together, where the model runs; 0: a quarter of the host's free memory, at most 8
  // GiB, or nine tenths of what a CUDA device has left beside the model.
  std::uint64_t cache_bytes = 0;
  // How much of it the host is asked for before it is needed, while nothing runs; unset: all, 0:
  // nothing. Of models with small states nothing is.
  std::optional<std::uint64_t> pages_ahead_bytes;
  int threads = 0;          // 0: physical cores
  std::string isa;          // "": CAIRN_ISA, else the best there is
  std::string kv = "bf16";  // bf16 | f32
  // What products with bf16 weights and a bf16 cache take: bf16, rounded | fp32 (the CPU)
  std::string activations = "bf16";
  std::int32_t context_length = 0;  // prompt + answer; 0: the model's
  // 0: the device's default, or what goes with the other one where that is given. The CPU: 16 and
  // 512; a CUDA device: 64 and 2048.
  std::int32_t max_running = 0;      // sequences in the batch
  std::int32_t max_step_tokens = 0;  // rows of a step: a long prompt is cut into chunks
  // Milliseconds that a step with running streams in it should take at most: prompts beside them
  // get fewer rows a step. 0: as many as fit.
  std::int32_t max_step_ms = 120;
  std::int32_t queue_limit = 1024;             // requests waiting, running ones not counted
  std::int64_t queue_token_limit = 8'388'608;  // prompt tokens waiting
  std::int64_t queue_byte_limit = 64 << 20;    // prompt text waiting, whatever it will be in tokens
  std::int32_t max_choices = 16;               // n of one request
  std::int32_t max_logprobs = 20;              // top_logprobs of one request
  std::int64_t max_prompt_logprobs =
      262'144;  // entries of one request: prompt tokens x (1 + top) x choices
  std::int32_t max_stop_strings = 16;
  // global: prompts of all clients share the cache; key: only those of one client key do. Salts
  // divide either further.
  std::string cache_scope = "global";
  std::int32_t max_cache_salt_bytes = 256;
  std::int32_t text_workers = 2;  // actors that tokenize, render and detokenize
  std::int32_t share_wait_tokens =
      256;  // overlap with a running prefill worth waiting for (architecture, decision 3)
  std::chrono::milliseconds request_timeout{3'600'000};  // deadline of a request that names none
  std::int32_t forest_nodes = 200'000;                   // remembered radix nodes, cached or not
  // Tokens of prefill that copying a state out or in is charged as, every token alike: decisions
  // that do not depend on the machine. Unset: both as measured. The disk goes by what it measures.
  std::optional<double> copy_tokens;
  std::string disk_dir;          // cached states outlive the process here; "": they do not
  std::uint64_t disk_bytes = 0;  // of it; 0: a quarter of the free space, at most 64 GiB
  std::chrono::milliseconds disk_max_age{0};  // what was not used for longer goes; 0: no limit
  LoadProgress progress;                      // may be empty
};

/// A chat: `messages` and `tools` as the JSON of the OpenAI API. `"cache_control": {"type":
/// "ephemeral"}` on a message (or on a text part of its content) marks the place behind that
/// message (that part) as one to keep a state at; at most 16 a request.
struct ChatPrompt {
  std::string messages_json;            // an array
  std::string tools_json;               // an array or ""
  std::optional<bool> enable_thinking;  // unset: the template's default
  std::string template_kwargs_json;     // an object or ""
  bool add_generation_prompt = true;
};

/// Text (special tokens in it are text unless parse_special), ids, or a chat.
struct TextPrompt {
  std::string text;
  bool parse_special = false;
};
using Prompt = std::variant<std::vector<std::int32_t>, TextPrompt, ChatPrompt>;

struct Sampling {
  // Unset: generation_config.json's value, else the neutral one (1, 0, 1, 0, ...).
  std::optional<float> temperature;   // 0: greedy
  std::optional<std::int32_t> top_k;  // 0: all
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<std::uint64_t> seed;  // unset: random, echoed in Usage::seed
  std::vector<std::pair<std::int32_t, float>> logit_bias;
};

struct GenerateRequest {
  Prompt prompt;
  Sampling sampling;
  std::int32_t n = 1;                      // choices
  std::optional<std::int32_t> max_tokens;  // unset: what the context leaves
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::int32_t logprobs = -1;    // -1: none; k >= 0: the token's and the top k
  bool prompt_logprobs = false;  // also for the prompt; ignores the cache, reports 0 cached tokens
  bool echo = false;             // the prompt's text first
  bool skip_special_tokens = true;
  bool use_cache = true;  // false: neither reads nor writes the prefix cache, in memory or on disk
  // Places of a prompt of text or ids to keep a state at, as numbers of tokens before them: at most
  // 16, each from 1 to the prompt's length. Chats mark theirs in their messages.
  std::vector<std::int32_t> cache_positions;
  // Cached prompts are shared only among requests of one salt and, with cache_scope "key", of one
  // client key, which must then be there. Kept as a digest only.
  std::string client_key;
  std::string cache_salt;
  std::optional<std::chrono::milliseconds> timeout;
  std::string endpoint = "api";  // metrics label, one of the fixed set: api, chat, completions
};

enum class FinishReason : std::uint8_t { stop, length, abort, error };
const char* to_string(FinishReason reason);

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
  std::string bytes;  // the token's raw bytes, perhaps part of a character
};

struct TokenInfo {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending
};

struct Usage {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;  // all choices
  std::int32_t cached_tokens =
      0;  // of the prompt, of the first choice; never above prompt_tokens - 1
  std::uint64_t seed = 0;
  double queue_seconds = 0;
  double prefill_seconds = 0;  // of the first choice
  double decode_seconds = 0;
  double first_token_seconds = 0;  // since submit
  double total_seconds = 0;
};

/// First event of a request that was accepted; tells what was tokenized and cached.
struct Started {
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;
  std::uint64_t seed = 0;
  std::vector<TokenInfo> prompt;  // prompt_logprobs only: entry i is token i given those before;
                                  // the first has logprob 0
};
/// New text of one choice. Text is never half a character; stop strings are never part of it.
struct Delta {
  std::int32_t choice = 0;
  std::string text;
  std::vector<std::int32_t> tokens;  // produced since the last delta
  std::vector<TokenInfo> logprobs;   // one per token when asked for
};
struct ChoiceFinished {
  std::int32_t choice = 0;
  FinishReason reason = FinishReason::stop;
};
/// Last event: exactly one of Finished and Failed ends every submitted request.
struct Finished {
  Usage usage;
};
struct Failed {
  Error error;
  Usage usage;
};
using Event = std::variant<Started, Delta, ChoiceFinished, Finished, Failed>;

/// Called on an engine thread, in order, never concurrently for one request. Must return quickly
/// and not throw.
using EventSink = std::function<void(Event)>;

using RequestId = std::uint64_t;

struct EngineInfo {
  std::string model_name;
  std::string shape;  // "qwen3.5 24x1024, 0.75 B parameters"
  std::string device, isa, weights, kv, activations, gemm, policy, cache_scope;
  int threads = 0;
  std::int32_t context_length = 0;
  std::int32_t vocab_size = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t disk_bytes = 0;  // limit; 0: there is no disk tier
  std::uint64_t state_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::vector<std::pair<std::string, std::string>> limits;  // name, value: what is printed at start
};

struct EngineStats {
  std::int64_t running = 0, waiting = 0;
  std::uint64_t kv_bytes = 0, state_bytes = 0;  // live now, cached or running
  std::int64_t kv_blocks = 0, states = 0;
  std::int64_t cached_states = 0;
  std::int64_t disk_states = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t plan_epoch = 0;
  // What a byte of the cache must earn: predicted tokens of prefill saved per request. 0: the
  // policy has none.
  double cache_price = 0;
};

/// What dropping the cache removed.
struct DroppedCache {
  std::int64_t paths = 0;  // remembered runs of tokens, with a state or without
  std::int64_t states = 0;
  std::uint64_t bytes = 0;  // of states and KV in memory
  std::int64_t disk_states = 0;
  std::uint64_t disk_bytes = 0;
};

struct Health {
  bool ready = false;
  std::string reason;  // why not
};

/// Thread-safe. Destroying it closes it with a short deadline.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Never blocks. Refusals at the door (queue full, closing) are the result; everything found
  /// later, bad input included, arrives as Failed before any Delta.
  virtual Result<RequestId> submit(GenerateRequest request, EventSink sink) = 0;
  /// Ends a request within one step; its last event is Failed{cancelled}. Unknown ids are ignored.
  virtual void cancel(RequestId id) = 0;

  virtual Result<std::vector<std::int32_t>> tokenize(const Prompt& prompt) const = 0;
  virtual Result<std::string> detokenize(std::span<const std::int32_t> tokens,
                                         bool skip_special) const = 0;
  virtual std::string token_bytes(std::int32_t token) const = 0;

  virtual const EngineInfo& info() const = 0;
  virtual EngineStats stats() const = 0;
  virtual Health health() const = 0;

  /// Forgets every prompt, in memory and on disk: states, KV and the paths themselves. Of requests
  /// that were queued or running then, nothing is kept later. Waits until it is done, at most
  /// `timeout`; not to be called from an event sink. Errors: unavailable (too late, or one part of
  /// the engine is being replaced, or the disk could not be emptied): perhaps not all is gone.
  virtual Result<DroppedCache> drop_cache(std::chrono::milliseconds timeout) = 0;
  /// The forest as it is kept and valued now, in the form of engine/placement/plan_snapshot.hpp:
  /// depths, rates and bytes, no tokens. Waits and fails as drop_cache.
  virtual Result<std::string> plan_json(std::chrono::milliseconds timeout) = 0;

  /// Stops accepting, lets requests end until the deadline, then cancels the rest. Returns what did
  /// not stop (empty: all did).
  virtual std::vector<std::string> close(std::chrono::milliseconds deadline) = 0;
};

/// Loads the model and starts the actors. Throws LoadError or DeviceError with a sentence for the
/// user. `metrics` may be null.
std::unique_ptr<Engine> make_engine(EngineOptions options,
                                    std::shared_ptr<Metrics> metrics = nullptr);

}  // namespace cairn
