// SPDX-License-Identifier: Apache-2.0
#include "http/connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "base/bytes.hpp"
#include "base/log.hpp"

namespace cairn::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace parsing = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::chrono::milliseconds kLingerTime{2'000};
constexpr std::size_t kLingerBytes = 64 << 20;

template <class View>
std::string text_of(const View& view) {
  return {view.data(), view.size()};
}

Reply reply_for(const error_code& error, const ServerOptions& options) {
  if (error == parsing::error::body_limit)
    return error_reply(
        413, "The body is larger than the limit of " + format_bytes(options.max_body_bytes) + ".",
        "request_too_large");
  if (error == parsing::error::header_limit || error == parsing::error::buffer_overflow)
    return error_reply(431,
                       "The request's headers are larger than the limit of " +
                           format_bytes(options.max_header_bytes) + ".",
                       "headers_too_large");
  if (error == parsing::error::bad_version)
    return error_reply(505, "This server speaks HTTP/1.1 and HTTP/1.0.", "bad_http_version");
  return error_reply(400, "This is not a well-formed HTTP request: " + error.message() + ".",
                     "bad_http_request");
}

}  // namespace

struct Connection::Reading {
  explicit Reading(State& state) : share(std::make_unique<BodyShare>(state)) {
    parser.header_limit(state.options.max_header_bytes);
    parser.body_limit(state.options.max_body_bytes);
    parser.eager(true);
  }
  parsing::request_parser<parsing::string_body> parser;
  std::unique_ptr<BodyShare> share;
  bool header_seen = false;
};

Connection::Connection(Socket socket, std::shared_ptr<State> state, WorkThreads& threads)
    : socket_(std::move(socket)),
      state_(std::move(state)),
      threads_(threads),
      buffer_(state_->options.max_header_bytes + kReadBytes),
      deadline_(socket_.get_executor()),
      watch_ended_(socket_.get_executor()) {}

void Connection::arm(std::chrono::milliseconds time) {
  const unsigned epoch = ++deadline_epoch_;
  deadline_.expires_after(time);
  deadline_.async_wait([self = shared_from_this(), epoch](error_code error) {
    if (!error && epoch == self->deadline_epoch_) self->close_now();
  });
}

void Connection::disarm() {
  ++deadline_epoch_;
  deadline_.cancel();
}

void Connection::close_now() {
  error_code ignored;
  socket_.close(ignored);
}

void Connection::close(bool only_idle) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), only_idle] {
    if (!only_idle || self->idle_) self->close_now();
  });
}

asio::awaitable<void> Connection::run() {
  try {
    co_await serve_requests();
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("a connection ended: ") + e.what());
  }
  disarm();
  close_now();
}

asio::awaitable<void> Connection::serve_requests() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  for (bool keep = true; keep && socket_.is_open();) {
    auto request = co_await read_request();
    if (!request) break;
    keep = co_await serve(std::move(*request));
  }
  co_await linger();
}

asio::awaitable<void> Connection::refuse() {
  try {
    idle_ = false;
    unread_body_ = true;
    co_await reject(
        error_reply(503, "The server has too many connections.", "too_many_connections"));
    co_await linger();
  } catch (const std::exception&) {
  }
  disarm();
  close_now();
}

asio::awaitable<bool> Connection::read_more() {
  error_code error;
  const auto room = buffer_.max_size() - buffer_.size();
  if (room == 0) co_return false;
  const auto size =
      co_await socket_.async_read_some(buffer_.prepare(std::min(room, kReadBytes)),
                                       asio::redirect_error(asio::use_awaitable, error));
  buffer_.commit(size);
  co_return !error;
}

// Nothing when the connection is to end; a client that deserves a reason has got it.
asio::awaitable<std::optional<Request>> Connection::read_request() {
  Reading reading(*state_);
  auto& parser = reading.parser;
  idle_ = buffer_.size() == 0;
  arm(idle_ ? state_->options.idle_timeout : state_->options.request_timeout);
  while (!parser.is_done()) {
    std::size_t used = 0;
    if (buffer_.size() > 0) {
      if (std::exchange(idle_, false)) arm(state_->options.request_timeout);
      error_code error;
      used = parser.put(buffer_.data(), error);
      buffer_.consume(used);
      if (error && error != parsing::error::need_more) {
        unread_body_ = true;
        co_await reject(reply_for(error, state_->options));
        co_return std::nullopt;
      }
      if (parser.is_header_done() && !co_await header_done(reading)) co_return std::nullopt;
    }
    if (idle_ && state_->draining) co_return std::nullopt;
    if (used == 0 && !parser.is_done() && !co_await read_more()) co_return std::nullopt;
  }
  disarm();
  auto& message = parser.get();
  Request request;
  request.method = text_of(message.method_string());
  request.target = text_of(message.target());
  request.authorization = text_of(message[parsing::field::authorization]);
  request.body = std::move(message.body());
  request.share = std::move(reading.share);
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  co_return request;
}

// What the header alone decides, so that no body is awaited that would be thrown away. Called again
// as the body grows. False: the request was refused.
asio::awaitable<bool> Connection::header_done(Reading& reading) {
  auto& parser = reading.parser;
  const auto& message = parser.get();
  std::optional<Reply> refusal;
  if (!reading.share->grow_to(message.body().size()))
    refusal = error_reply(503, "Too many large requests at once.", "service_unavailable");
  if (std::exchange(reading.header_seen, true) && !refusal) co_return true;
  const auto encoding = message[parsing::field::content_encoding];
  if (!encoding.empty() && encoding != "identity")
    refusal = error_reply(415, "A compressed body is not supported.", "unsupported_encoding");
  const auto route = find_route(text_of(message.target())).route;
  if (auto no_entry = refuse_entry(*state_, route, text_of(message[parsing::field::authorization]));
      no_entry && !parser.is_done())
    refusal = std::move(no_entry);
  if (refusal) {
    unread_body_ = true;
    co_await reject(*refusal);
    co_return false;
  }
  const auto expect = message[parsing::field::expect];
  if (!parser.is_done() && message.version() >= 11 && beast::iequals(expect, "100-continue")) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    arm(state_->options.request_timeout);
  }
  co_return true;
}

asio::awaitable<bool> Connection::reject(const Reply& reply) {
  Framing framing;
  framing.keep_alive = false;
  framing.cors_origin = state_->options.cors_origin;
  return write(to_text(reply, framing));
}

asio::awaitable<bool> Connection::write(std::string text) {
  if (text.empty()) co_return true;
  arm(state_->options.write_timeout);
  error_code error;
  co_await asio::async_write(socket_, asio::buffer(text),
                             asio::redirect_error(asio::use_awaitable, error));
  disarm();
  co_return !error;
}

// Lets a client that is still sending read our answer: closing with unread data would reset the
// connection.
asio::awaitable<void> Connection::linger() {
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error || !unread_body_) co_return;
  arm(kLingerTime);
  std::string sink(kReadBytes, '\0');
  for (std::size_t total = 0; total < kLingerBytes && !error;)
    total += co_await socket_.async_read_some(asio::buffer(sink),
                                              asio::redirect_error(asio::use_awaitable, error));
}

Framing Connection::framing_for(const Request& request) const {
  Framing framing;
  framing.keep_alive = request.keep_alive && !state_->draining;
  framing.http_1_0 = request.http_1_0;
  framing.head = request.method == "HEAD";
  framing.cors_origin = state_->options.cors_origin;
  return framing;
}

// Not a coroutine: g++ 12 lays the frame out wrongly when a condition awaits a call with
// temporaries.
asio::awaitable<bool> Connection::send(const Reply& reply, const Framing& framing) {
  return write_and_keep(to_text(reply, framing), framing.keep_alive);
}

asio::awaitable<bool> Connection::write_and_keep(std::string text, bool keep_alive) {
  const bool written = co_await write(std::move(text));
  co_return written&& keep_alive;
}

// False when the connection is to end.
asio::awaitable<bool> Connection::serve(Request request) {
  const Framing framing = framing_for(request);
  const Target target = find_route(request.target);
  if (auto reply = answer_at_the_door(*state_, target, request.method, request.authorization))
    co_return co_await send(*reply, framing);
  if (target.route == Route::chat || target.route == Route::completions)
    co_return co_await generate(std::move(request), target.route == Route::chat, framing);
  Reply reply;
  const Work work = work_of(target.route);
  if (work != Work::none) {
    reply = co_await asio::co_spawn(
        work == Work::text ? threads_.text : threads_.waiting,
        [this, &target, &request]() -> asio::awaitable<Reply> {
          co_return answer_simple(*state_, target, request.body);
        },
        asio::use_awaitable);
  } else {
    reply = answer_simple(*state_, target, request.body);
  }
  co_return co_await send(reply, framing);
}

}  // namespace cairn::http
