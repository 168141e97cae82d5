// SPDX-License-Identifier: Apache-2.0
#include "http/mailbox.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/log.hpp"

namespace cairn::http {
namespace {

namespace asio = boost::asio;

// About what the event takes as JSON. Started counts nothing: it comes once and
// RequestLimits::max_prompt_logprobs bounds it.
std::size_t weight(const Event& event) {
  const auto* delta = std::get_if<Delta>(&event);
  if (!delta) return 0;
  std::size_t bytes = 256 + delta->text.size();
  for (const auto& info : delta->logprobs) bytes += 128 * (1 + info.top.size());
  return bytes;
}

}  // namespace

Mailbox::Mailbox(asio::any_io_executor strand, std::size_t limit_bytes,
                 std::function<void()> on_overflow)
    : strand_(strand),
      limit_bytes_(limit_bytes),
      timer_(std::in_place, strand),
      on_overflow_(std::move(on_overflow)) {}

EventSink Mailbox::sink(std::size_t prompt) {
  return [self = shared_from_this(), prompt](Event event) {
    try {
      self->push(prompt, std::move(event));
    } catch (const std::exception& e) {
      log(LogLevel::error, std::string("an event was lost: ") + e.what());
    }
  };
}

void Mailbox::push(std::size_t prompt, Event event) {
  const std::lock_guard lock(mutex_);
  if (!strand_ || overflowed_) return;
  overflowed_ = bytes_ > limit_bytes_;  // one large event is fine, more on top of it are not
  bytes_ += weight(event);
  if (!overflowed_) items_.push_back({prompt, std::move(event)});
  if (std::exchange(wake_posted_, true) && !overflowed_) return;
  asio::post(*strand_, [self = shared_from_this()] { self->woken(); });
}

void Mailbox::woken() {
  bool overflowed = false;
  {
    const std::lock_guard lock(mutex_);
    wake_posted_ = false;
    overflowed = overflowed_;
  }
  if (overflowed && on_overflow_) {
    interrupted_ = true;
    std::exchange(on_overflow_, nullptr)();
  }
  if (timer_) timer_->cancel();
}

asio::awaitable<void> Mailbox::wait() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!items_.empty()) co_return;
    }
    if (interrupted_ || !timer_) co_return;
    // No wake can get lost: it runs on this strand, so not between the look above and the wait
    // below.
    timer_->expires_at(asio::steady_timer::time_point::max());
    boost::system::error_code ignored;
    co_await timer_->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

std::vector<Mailbox::Item> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(items_, {});
}

void Mailbox::interrupt() {
  interrupted_ = true;
  if (timer_) timer_->cancel();
}

void Mailbox::close() {
  {
    const std::lock_guard lock(mutex_);
    strand_.reset();
    items_.clear();
  }
  timer_.reset();
  on_overflow_ = nullptr;
}

}  // namespace cairn::http
