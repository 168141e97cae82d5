// SPDX-License-Identifier: Apache-2.0
// cairn inside a program: load a model, ask twice, see what the second question found cached.
//   embed [MODEL_DIRECTORY|demo]
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>

#include "engine/engine.hpp"

namespace {

/// Submits and waits, printing text as it comes. Returns the usage, or nothing when the request
/// failed.
std::optional<cairn::Usage> ask(cairn::Engine& engine, cairn::GenerateRequest request) {
  std::mutex mutex;
  std::condition_variable done;
  bool over = false;
  std::optional<cairn::Usage> usage;
  const auto sink = [&](cairn::Event event) {
    std::lock_guard lock(mutex);
    if (const auto* delta = std::get_if<cairn::Delta>(&event)) {
      std::fputs(delta->text.c_str(), stdout);
      std::fflush(stdout);
    } else if (const auto* failed = std::get_if<cairn::Failed>(&event)) {
      std::fprintf(stderr, "failed: %s\n", failed->error.message.c_str());
      over = true;
    } else if (const auto* finished = std::get_if<cairn::Finished>(&event)) {
      usage = finished->usage;
      over = true;
    }
    // Under the lock: once `over` is seen, this frame's variables are gone.
    if (over) done.notify_one();
  };
  const auto id = engine.submit(std::move(request), sink);
  if (!id.ok()) {
    std::fprintf(stderr, "refused: %s\n", id.error().message.c_str());
    return std::nullopt;
  }
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return over; });
  return usage;
}

int run(const std::string& model) {
  cairn::EngineOptions options;
  options.model = model;
  const auto engine = cairn::make_engine(options);
  std::printf("%s on %s (%s)\n", engine->info().shape.c_str(), engine->info().device.c_str(),
              engine->info().isa.c_str());
  std::string document;
  for (int i = 1; i <= 40; ++i)
    document += "Stone " + std::to_string(i) + " lies on the one before. ";
  std::int32_t cached = 0;
  for (const char* question : {"How many stones are there?", "Which stone lies on stone 7?"}) {
    cairn::GenerateRequest request;
    request.prompt = cairn::TextPrompt{document + question, false};
    request.max_tokens = 24;
    request.sampling.temperature = 0.F;
    std::printf("\n> %s\n", question);
    const auto usage = ask(*engine, std::move(request));
    if (!usage) return 1;
    cached = usage->cached_tokens;
    std::printf("\n[%d prompt tokens, %d cached, %.1f ms to the first token]\n",
                usage->prompt_tokens, usage->cached_tokens, usage->first_token_seconds * 1e3);
  }
  return cached > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "demo");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "embed: %s\n", e.what());
    return 1;
  }
}
