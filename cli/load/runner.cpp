// SPDX-License-Identifier: Apache-2.0
#include "cli/load/runner.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "cli/load/kept.hpp"
#include "cli/load/random.hpp"

namespace cairn::load {
namespace {

using Clock = http::ClientAnswer::Clock;

constexpr int kLostAfter = 3;                    // connections refused in a row
constexpr std::chrono::milliseconds kLook{100};  // at a stop, and between two reports of progress

/// What the client's thread hands over.
class Answers {
 public:
  void put(std::size_t request, http::ClientAnswer answer) {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back(request, std::move(answer));
    changed_.notify_one();
  }
  /// Waits until there is one, at most until `deadline`.
  std::optional<std::pair<std::size_t, http::ClientAnswer>> take(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return !answers_.empty(); });
    if (answers_.empty()) return std::nullopt;
    auto first = std::move(answers_.front());
    answers_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::size_t, http::ClientAnswer>> answers_;
};

class Run {
 public:
  Run(http::Client& client, Asker& asker, const Source& source, const Sink& sink,
      const RunLimits& limits)
      : client_(client),
        asker_(asker),
        source_(source),
        sink_(sink),
        limits_(limits),
        begun_(now()) {
    if (limits.rate) arrivals_.emplace(*limits.rate, limits.seed);
    next_arrival_ = begun_ + (arrivals_ ? arrivals_->next() : 0);
  }

  RunResult operator()(const std::atomic<bool>& stop,
                       const std::function<void(const RunProgress&)>& progress) {
    Clock::time_point report = Clock::now() + kLook;
    for (;;) {
      if ((stop || !result_.broken.empty()) && !cancelled_) {
        cancelled_ = exhausted_ = true;
        waiting_.clear();
        waiting_bytes_ = 0;
        client_.cancel();
      }
      // One by one: where arrivals outrun the sending, answers and a stop still have their turn.
      if (due()) start();
      if (exhausted_ && running_.empty()) break;
      const Clock::time_point until = due() ? Clock::now() : wake_at();
      if (auto answer = answers_->take(until)) finish(answer->first, answer->second);
      if (Clock::now() < report) continue;
      report = Clock::now() + kLook;
      if (progress) progress(so_far());
    }
    if (progress) progress(so_far());
    result_.seconds = now() - begun_;
    return std::move(result_);
  }

 private:
  RunProgress so_far() const { return {answered_, failed_, std::ssize(running_), now() - begun_}; }

  double now() const { return asker_.seconds(Clock::now()); }

  bool too_late(double at) const { return limits_.seconds && at - begun_ >= *limits_.seconds; }

  bool due() {
    if (exhausted_) return false;
    if (planned_ >= limits_.requests || too_late(now())) exhausted_ = true;
    if (exhausted_) return false;
    if (arrivals_) return next_arrival_ <= now();
    return std::ssize(running_) + std::ssize(waiting_) < limits_.concurrency;
  }

  Clock::time_point wake_at() const {
    Clock::time_point at = Clock::now() + kLook;
    if (arrivals_ && !exhausted_) {
      const auto left = std::chrono::duration<double>(next_arrival_ - now());
      at = std::min(at, Clock::now() + std::chrono::duration_cast<Clock::duration>(left));
    }
    return at;
  }

  void start() {
    std::optional<Planned> planned = source_();
    if (!planned) {
      exhausted_ = true;
      return;
    }
    ++planned_;
    Record record;
    record.planned = std::move(*planned);
    record.intended = arrivals_ ? next_arrival_ : now();
    if (arrivals_) next_arrival_ = begun_ + arrivals_->next();
    const std::int64_t session = record.planned.session;
    if (session < 0 || !talking_.contains(session)) return send(std::move(record));
    const std::uint64_t bytes = bytes_of(record);
    if (arrivals_ && waiting_bytes_ + bytes > limits_.waiting_bytes) {
      if (record.planned.last) ended_.insert(session);
      return give_up(std::move(record), "not sent", "too many turns wait for answers before them");
    }
    waiting_bytes_ += bytes;
    waiting_.emplace(session, std::move(record));
  }

  void give_up(Record record, const char* error, const char* message) {
    record.sent = record.ended = record.intended;
    record.error = error;
    record.message = message;
    ++failed_;
    sink_(std::move(record));
  }

  void send(Record record) {
    const std::int64_t session = record.planned.session;
    if (!asker_.may_ask(record.planned)) {
      if (record.planned.last) asker_.forget(session);
      return give_up(std::move(record), "earlier turn", "a turn before this one was not answered");
    }
    if (session >= 0) talking_.insert(session);
    std::string body = asker_.ask(record);
    record.planned.tokens = Tokens();  // the body has them
    const std::string target = record.target;
    record.sent = now();
    const std::size_t request = sent_++;
    running_.emplace(request, std::move(record));
    client_.post({target, std::move(body), limits_.timeout},
                 [answers = answers_, request](http::ClientAnswer answer) {
                   answers->put(request, std::move(answer));
                 });
  }

  void finish(std::size_t request, const http::ClientAnswer& answer) {
    Record record = std::move(running_.extract(request).mapped());
    asker_.take(record, answer);
    look_at(answer);
    const std::int64_t session = record.planned.session;
    if (record.planned.last) asker_.forget(session);
    const double ended = record.ended;
    if (answer.failure != http::ClientFailure::cancelled) {
      ++(record.answered() ? answered_ : failed_);
      sink_(std::move(record));
    }
    if (session < 0) return;
    talking_.erase(session);
    if (too_late(ended)) {
      while (take_waiting(session)) continue;
    }
    // In the open loop several turns may be late.
    while (!talking_.contains(session)) {
      std::optional<Record> turn = take_waiting(session);
      if (!turn) break;
      turn->intended = std::max(turn->intended, ended);
      send(std::move(*turn));
    }
    if (!talking_.contains(session) && ended_.erase(session) > 0) asker_.forget(session);
  }

  std::optional<Record> take_waiting(std::int64_t session) {
    const auto next = waiting_.find(session);
    if (next == waiting_.end()) return std::nullopt;
    Record turn = std::move(next->second);
    waiting_.erase(next);
    waiting_bytes_ -= bytes_of(turn);
    return turn;
  }

  // Whether it makes sense to go on.
  void look_at(const http::ClientAnswer& answer) {
    refused_ = answer.failure == http::ClientFailure::connect ? refused_ + 1 : 0;
    if (refused_ >= kLostAfter) result_.broken = "the server no longer answers: " + answer.message;
    if (answer.failure == http::ClientFailure::local) {
      result_.broken = "this machine cannot hold more connections: " + answer.message;
    }
  }

  http::Client& client_;
  Asker& asker_;
  const Source& source_;
  const Sink& sink_;
  const RunLimits& limits_;
  double begun_;
  std::optional<Arrivals> arrivals_;
  double next_arrival_ = 0;
  std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  RunResult result_;
  std::multimap<std::int64_t, Record> waiting_;  // turns by conversation, earlier ones first
  std::uint64_t waiting_bytes_ = 0;              // of these
  std::set<std::int64_t> talking_;               // conversations with a turn on its way
  std::set<std::int64_t> ended_;                 // of these, whose last turn was given up
  std::map<std::size_t, Record> running_;        // by number of sending
  std::size_t sent_ = 0;
  std::int64_t planned_ = 0, answered_ = 0, failed_ = 0;
  int refused_ = 0;
  bool exhausted_ = false, cancelled_ = false;
};

}  // namespace

RunResult run(http::Client& client, Asker& asker, const Source& source, const Sink& sink,
              const RunLimits& limits, const std::atomic<bool>& stop,
              const std::function<void(const RunProgress&)>& progress) {
  return Run(client, asker, source, sink, limits)(stop, progress);
}

}  // namespace cairn::load
