// SPDX-License-Identifier: Apache-2.0
// Speeds of the whole model: prefill, decode, the first token cold and warm, copies.
#include <algorithm>
#include <chrono>
#include <memory>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "tests/gpu_check/model.hpp"
#include "tests/gpu_check/parts.hpp"

namespace cairn::gpu_check {
namespace {

using testing::DrivenSequence;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double measured(const Context& context, const std::string& name) {
  const auto found = context.measured.find(name);
  return found == context.measured.end() ? 0 : found->second;
}

/// A row with the share of `bound` in `seconds`, both of the same work; without one when the bound
/// is not known.
void report_rate(Context& context, const std::string& name, double tokens, double seconds,
                 double bound, const std::string& note) {
  if (bound > 0) {
    context.report.share(name, tokens / seconds, "tokens/s", bound / seconds, note);
  } else {
    context.report.measured(name, tokens / seconds, "tokens/s");
  }
}

double seconds_of_operations(const Context& context, double operations) {
  const double rate = measured(context, kMatrixRate);
  return rate > 0 ? operations / (rate * 1e12) : 0;
}
double seconds_of_bytes(const Context& context, double bytes) {
  const double rate = measured(context, kBandwidth);
  return rate > 0 ? bytes / (rate * 1e9) : 0;
}

void measure_prefill(Context& context, Served& served, const std::string& kind) {
  const model::ModelConfig& c = served_model();
  const auto layers =
      static_cast<double>(c.parameters() - std::int64_t{c.vocab_size} * c.hidden_size);
  for (const std::int32_t tokens : kDryRun ? std::vector<std::int32_t>{8, 24}
                                           : std::vector<std::int32_t>{512, 2048, 8192, 32768}) {
    const std::string name = "prefill " + std::to_string(tokens) + kind;
    if (!context.has_time(2, name)) return;
    const auto prompt = random_tokens(tokens, 1);
    double best = 1e9;
    for (int round = 0; round < (kDryRun ? 1 : 3); ++round) {
      const auto sequence = served.new_sequence();
      best = std::min(best, seconds_of([&] { served.prefill(*sequence, prompt); }));
    }
    const double bound = seconds_of_operations(context, 2 * layers * tokens);
    report_rate(context, name, tokens, best, bound, "of the matrix rate, by the projections alone");
    const double rule = measured(context, "delta_rule, 1 x 2048");
    if (tokens != 8192 || rule == 0 || !kind.empty()) continue;
    context.report.share("recurrence in prefill 8192", 1e-3 * rule * 4 * c.linear_layers(), "ms",
                         1e-6 * rule * 4 * c.linear_layers() / best, "of its time");
  }
}

void measure_decode(Context& context, Served& served, const std::string& kind) {
  const model::ModelConfig& c = served_model();
  const std::int32_t context_tokens = kDryRun ? 8 : 1024;
  std::vector<std::unique_ptr<DrivenSequence>> sequences;
  const auto prompt = random_tokens(context_tokens, 2);
  for (const std::int32_t batch :
       kDryRun ? std::vector<std::int32_t>{1, 2} : std::vector<std::int32_t>{1, 8, 32, 128}) {
    const std::string name = "decode " + std::to_string(batch) + ", " + kind;
    if (!context.has_time(3, name)) return;
    while (sequences.size() < static_cast<std::size_t>(batch)) {
      sequences.push_back(served.new_sequence());
      served.prefill(*sequences.back(), prompt);
    }
    const int steps = kDryRun ? 1 : 50;
    for (int i = 0; i < 2; ++i) served.decode(sequences);  // the first record graphs
    const double seconds = seconds_of([&] {
      for (int i = 0; i < steps; ++i) served.decode(sequences);
    });
    const model::MemoryLayout layout = served.backend().layout();
    const double bytes =
        2.0 * static_cast<double>(c.parameters()) +
        batch * (2.0 * static_cast<double>(layout.state_bytes) +
                 context_tokens * static_cast<double>(layout.kv_bytes_per_token()));
    report_rate(context, name, static_cast<double>(batch) * steps, seconds,
                steps * seconds_of_bytes(context, bytes), "of reading speed");
  }
}

void measure_copies(Context& context, Served& served) {
  const std::size_t bytes = kDryRun ? 1 << 16 : std::size_t{256} << 20;
  if (!context.has_time(2, "copies")) return;
  const auto place = served.memory().allocate(bytes);
  const std::shared_ptr<std::byte> host = served.arena().host_memory(bytes);
  const auto rate = [&](const std::string& name, std::size_t piece, const auto& copy) {
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      best = std::min(best, seconds_of([&] {
                        for (std::size_t at = 0; at + piece <= bytes; at += piece) copy(at, piece);
                      }));
    }
    const auto copied = static_cast<double>(bytes / piece * piece);
    context.report.measured(name, copied / best / 1e9, "GB/s", format_bytes(piece) + " at a time");
  };
  const auto save = [&](std::size_t at, std::size_t piece) {
    served.arena().read(place.get() + at, {host.get() + at, piece});
  };
  const auto restore = [&](std::size_t at, std::size_t piece) {
    served.arena().write({host.get() + at, piece}, place.get() + at);
  };
  rate("save", bytes, save);
  rate("restore", bytes, restore);
  const model::MemoryLayout layout = served.backend().layout();
  rate("save of states", layout.state_bytes, save);
  rate("restore of states", layout.state_bytes, restore);
  rate("restore of blocks", layout.kv_block_bytes, restore);
}

void measure_first_token(Context& context, Served& served) {
  const std::int32_t tokens = kDryRun ? 24 : 8192;
  const std::int32_t kept = tokens - (kDryRun ? 8 : 64);  // whole blocks
  if (!context.has_time(3, "first token")) return;
  const auto prompt = random_tokens(tokens, 3);
  const std::span rest = std::span(prompt).subspan(static_cast<std::size_t>(kept));
  const std::string what = std::to_string(tokens) + " tokens, " + std::to_string(rest.size()) +
                           " of them new to the cache";

  const auto cold = served.new_sequence();
  const auto state = cold->new_state();
  const std::vector<model::SavePoint> saves{{kept, state.get()}};
  const double cold_seconds = seconds_of([&] { served.prefill(*cold, prompt, saves); });
  context.report.measured("first token, cold", 1000 * cold_seconds, "ms",
                          std::to_string(tokens) + " tokens");

  const double warm = seconds_of([&] {
    DrivenSequence resumed = DrivenSequence::resume(*cold, kept, state.get());
    served.prefill(resumed, rest);
  });
  context.report.measured("first token, cached on the device", 1000 * warm, "ms", what);

  const auto saved_blocks = static_cast<std::size_t>(kept / model::kBlockTokens);
  const std::size_t block_bytes = served.backend().layout().kv_block_bytes;
  // The state, then the blocks.
  const std::size_t state_bytes = served.backend().layout().state_bytes;
  const auto saved = served.arena().host_memory(state_bytes + saved_blocks * block_bytes);
  const auto block = [&](std::size_t i) {
    return std::span(saved.get() + state_bytes + i * block_bytes, block_bytes);
  };
  served.arena().read(state.get(), {saved.get(), state_bytes});
  for (std::size_t i = 0; i < saved_blocks; ++i) served.arena().read(cold->block(i), block(i));
  const double restored = seconds_of([&] {
    served.arena().write({saved.get(), state_bytes}, state.get());
    for (std::size_t i = 0; i < saved_blocks; ++i) served.arena().write(block(i), cold->block(i));
    DrivenSequence resumed = DrivenSequence::resume(*cold, kept, state.get());
    served.prefill(resumed, rest);
  });
  context.report.measured("first token, cached on the host", 1000 * restored, "ms", what);
}

}  // namespace

void measure_speed(Context& context) {
  const auto weights = served_weights();
  {
    Served served(weights, served_options());
    context.report.fact("backend", served.backend().info().device);
    measure_prefill(context, served, "");
    measure_decode(context, served, "graphs");
    measure_copies(context, served);
    measure_first_token(context, served);
  }
  if (!context.has_time(8, "decode without graphs")) return;
  model::CudaOptions options = served_options();
  options.graphs = false;
  Served served(weights, options);
  measure_decode(context, served, "no graphs");
}

void measure_speed_int8(Context& context) {
  model::CudaOptions options = served_options();
  options.weights = model::CudaWeights::int8;
  Served served(served_weights(), options);
  measure_prefill(context, served, ", int8");
  measure_decode(context, served, "int8");
}

void measure_speed_cublaslt(Context& context) {
  model::CudaOptions options = served_options();
  options.gemm = model::CudaGemm::cublaslt;
  try {
    Served served(served_weights(), options);
    measure_prefill(context, served, ", cuBLASLt");
    measure_decode(context, served, "cuBLASLt");
  } catch (const DeviceError& error) {
    context.report.skipped("cuBLASLt", error.what());
  }
}

}  // namespace cairn::gpu_check
