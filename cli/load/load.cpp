// SPDX-License-Identifier: Apache-2.0
#include "cli/load/load.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "cli/load/needed.hpp"
#include "engine/request/json_text.hpp"
#include "http/fetch.hpp"

namespace cairn::load {
namespace {

constexpr std::int32_t kWords = 4096;  // of prompts as text

struct ServedModel {
  std::string id;
  std::int64_t context = 0, vocabulary = 0;  // 0: not told
};

std::int64_t integer_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value ? value->as_int() : 0;
}

ServedModel ask_model(const LoadOptions& options) {
  http::FetchOptions fetch;
  fetch.api_key = options.api_key;
  const auto page = http::fetch(options.url + "/v1/models", fetch);
  if (!page) throw LoadError(page.error().message);
  const auto parsed = json::parse(*page);
  const json::Value* data = parsed.ok() ? parsed->find("data") : nullptr;
  const json::Value* id = data && !data->items().empty() ? data->items()[0].find("id") : nullptr;
  if (!id) throw LoadError(options.url + "/v1/models: expected a list of models");
  const json::Value& first = data->items()[0];
  ServedModel model{id->text(), integer_at(first, "max_model_len"),
                    integer_at(first, "vocab_size")};
  const json::Value* meta = first.find("meta");
  if (meta && model.vocabulary == 0) model.vocabulary = integer_at(*meta, "n_vocab");
  return model;
}

/// Tokens of the longest prompt and its answer.
std::int64_t longest(const WorkloadOptions& o, std::int64_t answer) {
  const auto asked = [&](Kind kind) { return o.weights[static_cast<std::size_t>(kind)] > 0; };
  std::int64_t most = 0;
  if (asked(Kind::documents) || asked(Kind::overlaps)) {
    most = std::int64_t{o.document_tokens} + o.question_tokens + answer;
  }
  if (asked(Kind::chat)) {
    const std::int64_t later = std::int64_t{o.turns - 1} * o.message_tokens;
    most = std::max(most, o.opening_tokens + later + o.turns * answer);
  }
  if (asked(Kind::short_prompts)) most = std::max(most, o.short_tokens + answer);
  return most;
}

class Load {
 public:
  Load(const LoadOptions& options, const std::atomic<bool>& stop, const LoadProgress& progress)
      : options_(options), stop_(stop), progress_(progress) {}

  Report operator()() {
    const ServedModel model = ask_model(options_);
    WorkloadOptions workload = options_.workload;
    if (options_.ask.text) {
      workload.vocabulary = kWords;
    } else if (workload.vocabulary == 0) {
      workload.vocabulary = static_cast<std::int32_t>(model.vocabulary);
      if (workload.vocabulary <= 0) {
        throw LoadError("the server does not tell how many tokens its vocabulary has: name it");
      }
    }
    const std::int64_t most = longest(workload, options_.ask.max_tokens);
    if (!options_.ask.text && model.context > 0 && most > model.context) {
      throw LoadError("prompts and answers of up to " + std::to_string(most) +
                      " tokens do not fit the server's context of " +
                      std::to_string(model.context));
    }
    workload_.emplace(workload);
    auto client = http::Client::open(options_.url, {options_.api_key});
    if (!client) throw LoadError(client.error().message);
    client_ = client.take();
    AskOptions ask = options_.ask;
    ask.model = model.id;
    asker_.emplace(std::move(ask));
    report_.server = options_.url;
    report_.model = model.id;
    for (int pass = 0; pass < options_.passes && report_.ended == "complete"; ++pass) {
      run_pass(pass);
    }
    compare_answers(report_);
    return std::move(report_);
  }

 private:
  bool drops(int pass) const {
    return options_.drop == Drop::each || (options_.drop == Drop::first && pass == 0);
  }

  /// False when it could not be done, which ends the load.
  bool drop_cache(int pass) {
    http::FetchOptions fetch;
    fetch.api_key = options_.admin_key;
    fetch.post = "";
    const auto dropped = http::fetch(options_.url + "/admin/cache/drop", fetch);
    if (dropped.ok()) {
      cache_.clear();
      return true;
    }
    if (pass == 0) throw LoadError(dropped.error().message);
    report_.ended = dropped.error().message;
    return false;
  }

  // Later passes ask what the first one asked.
  std::optional<Planned> next(int pass) {
    if (pass == 0) planned_.push_back(workload_->next());
    if (at_ == planned_.size()) return std::nullopt;
    return planned_[at_++];
  }

  Series scrape() const {
    http::FetchOptions fetch;
    fetch.api_key = options_.api_key;
    const auto page = http::fetch(options_.url + "/metrics", fetch);
    return page ? read_series(*page) : Series{};
  }

  void run_pass(int index) {
    static constexpr const char* kNames[] = {"first pass", "second pass"};
    Pass pass;
    pass.name = index < 2 ? kNames[index] : "pass " + std::to_string(index + 1);
    pass.dropped = drops(index);
    if (pass.dropped && !drop_cache(index)) return;
    at_ = 0;
    asker_->restart();
    RunLimits prepare = options_.limits;
    prepare.concurrency = 1;
    prepare.rate.reset();
    prepare.seconds.reset();
    prepare.requests = options_.warm_up;
    if (options_.warm_up > 0) take(run_part(index, prepare), pass, true);
    if (report_.ended == "complete") {
      const Series before = scrape();
      take(run_part(index, options_.limits), pass, false);
      pass.server = growth(before, scrape());
    }
    learn_prompts(pass);
    count_needed(pass.records, cache_);
    pass.groups = groups_of(pass.records);
    report_.passes.push_back(std::move(pass));
  }

  RunResult run_part(int index, const RunLimits& limits) {
    return run(
        *client_, *asker_, [&] { return next(index); }, limits, stop_,
        [&](const RunProgress& progress) {
          if (progress_) progress_(index, progress);
        });
  }

  void take(RunResult part, Pass& pass, bool warm_up) {
    for (Record& record : part.records) {
      record.warm_up = warm_up;
      pass.records.push_back(std::move(record));
    }
    if (!warm_up) pass.seconds = part.seconds;
    if (!part.lost.empty()) report_.ended = "the server no longer answers: " + part.lost;
    if (part.lost.empty() && stop_) report_.ended = "interrupted";
  }

  // Of prompts that were sent as text, once nothing is measured any more. A server that cannot say
  // leaves them unknown.
  void learn_prompts(Pass& pass) const {
    for (Record& record : pass.records) {
      if (record.question.empty() || !record.answered() || stop_) continue;
      engine::JsonWriter body;
      body.begin_object();
      if (record.question.front() == '[') {
        body.key("messages").raw(record.question);
      } else {
        body.key("content").string(record.question);
      }
      body.end_object();
      http::FetchOptions fetch;
      fetch.api_key = options_.api_key;
      fetch.post = body.take();
      const auto answer = http::fetch(options_.url + "/tokenize", fetch);
      const auto parsed = json::parse(answer ? *answer : "");
      const json::Value* tokens = parsed.ok() ? parsed->find("tokens") : nullptr;
      if (!tokens) return;
      for (const json::Value& id : tokens->items()) {
        record.prompt.push_back(static_cast<std::int32_t>(id.as_int()));
      }
    }
  }

  const LoadOptions& options_;
  const std::atomic<bool>& stop_;
  const LoadProgress& progress_;
  std::optional<Workload> workload_;
  std::unique_ptr<http::Client> client_;
  std::optional<Asker> asker_;
  std::vector<Planned> planned_;
  std::size_t at_ = 0;  // of them, in this pass
  ExactCache cache_;
  Report report_;
};

}  // namespace

Report run_load(const LoadOptions& options, const std::atomic<bool>& stop,
                const LoadProgress& progress) {
  return Load(options, stop, progress)();
}

}  // namespace cairn::load
