// SPDX-License-Identifier: Apache-2.0
#include "http/client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <set>
#include <thread>
#include <utility>

#include "http/event_lines.hpp"
#include "http/url.hpp"

namespace cairn::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using Stream = beast::tcp_stream;
using Parser = beast::http::response_parser<beast::http::string_body>;

ClientFailure failure_of(const error_code& error) {
  if (error == beast::error::timeout) return ClientFailure::timeout;
  if (error == asio::error::operation_aborted) return ClientFailure::cancelled;
  const bool end =
      error == beast::http::error::end_of_stream || error == beast::http::error::partial_message;
  if (!end && error.category() == error_code(beast::http::error::bad_version).category()) {
    return ClientFailure::malformed;
  }
  return ClientFailure::closed;
}

ClientFailure connect_failure_of(const error_code& error) {
  namespace errc = boost::system::errc;
  for (const errc::errc_t ours :
       {errc::too_many_files_open, errc::too_many_files_open_in_system, errc::address_not_available,
        errc::no_buffer_space, errc::not_enough_memory}) {
    if (error == ours) return ClientFailure::local;
  }
  const ClientFailure other = failure_of(error);
  return other == ClientFailure::closed ? ClientFailure::connect : other;
}

// So that a cancel reaches the connection, and none that is gone.
class Enlisted {
 public:
  Enlisted(std::set<Stream*>& running, Stream* stream) : running_(running), stream_(stream) {
    running_.insert(stream_);
  }
  ~Enlisted() { running_.erase(stream_); }
  Enlisted(const Enlisted&) = delete;
  Enlisted& operator=(const Enlisted&) = delete;

 private:
  std::set<Stream*>& running_;
  Stream* stream_;
};

void fail(ClientAnswer& answer, ClientFailure failure, const error_code& error) {
  answer.failure = failure;
  answer.message = error.message();
}

/// Memory, or descriptors for what Asio needs first: every other failure is a value.
ClientAnswer failed_here(const std::exception_ptr& error) {
  ClientAnswer answer;
  answer.failure = ClientFailure::local;
  answer.ended = ClientAnswer::Clock::now();
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& what) {
    answer.message = what.code().message();
  } catch (const std::exception& what) {
    answer.message = what.what();
  }
  return answer;
}

}  // namespace

const char* to_string(ClientFailure failure) {
  switch (failure) {
    case ClientFailure::none:
      return "none";
    case ClientFailure::connect:
      return "connect";
    case ClientFailure::local:
      return "local";
    case ClientFailure::timeout:
      return "timeout";
    case ClientFailure::closed:
      return "closed";
    case ClientFailure::malformed:
      return "malformed";
    case ClientFailure::cancelled:
      return "cancelled";
  }
  return "?";
}

/// All but `post` and `cancel` of the client is touched by its one thread alone.
struct Client::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::ip::tcp::resolver::results_type places;
  std::string host, authorization;
  std::uint64_t max_answer_bytes = 0;
  std::vector<std::unique_ptr<Stream>> idle;
  std::set<Stream*> running;
  bool cancelled = false;
  std::thread thread;

  asio::awaitable<ClientAnswer> exchange(ClientRequest request);
  asio::awaitable<bool> connect(Stream& stream, ClientAnswer& answer);
  asio::awaitable<bool> send(Stream& stream, const ClientRequest& request, ClientAnswer& answer);
  asio::awaitable<bool> receive(Stream& stream, ClientAnswer& answer);
  asio::awaitable<bool> read_body(Stream& stream, beast::flat_buffer& buffer, Parser& parser,
                                  ClientAnswer& answer);
};

asio::awaitable<bool> Client::Impl::send(Stream& stream, const ClientRequest& request,
                                         ClientAnswer& answer) {
  beast::http::request<beast::http::string_body> message(beast::http::verb::post, request.target,
                                                         11);
  message.set(beast::http::field::host, host);
  message.set(beast::http::field::content_type, "application/json");
  if (!authorization.empty()) message.set(beast::http::field::authorization, authorization);
  message.body() = request.body;
  message.prepare_payload();
  error_code error;
  co_await beast::http::async_write(stream, message,
                                    asio::redirect_error(asio::use_awaitable, error));
  if (error) fail(answer, failure_of(error), error);
  co_return !error;
}

asio::awaitable<bool> Client::Impl::read_body(Stream& stream, beast::flat_buffer& buffer,
                                              Parser& parser, ClientAnswer& answer) {
  const bool is_stream =
      parser.get()[beast::http::field::content_type].starts_with("text/event-stream");
  EventLines lines;
  error_code error;
  for (;;) {
    std::string& arrived = parser.get().body();
    if (is_stream) {
      const auto now = ClientAnswer::Clock::now();
      for (std::string& data : lines.take(arrived)) answer.events.push_back({now, std::move(data)});
    } else {
      answer.body += arrived;
    }
    arrived.clear();
    if (parser.is_done()) co_return true;
#ifndef __clang_analyzer__  // version 14 takes the coroutine's frame inside Asio for undefined here
    co_await beast::http::async_read_some(stream, buffer, parser,
                                          asio::redirect_error(asio::use_awaitable, error));
#endif
    if (error && !parser.is_done()) {
      fail(answer, failure_of(error), error);
      co_return false;
    }
  }
}

// Whether the connection can serve another request.
asio::awaitable<bool> Client::Impl::receive(Stream& stream, ClientAnswer& answer) {
  beast::flat_buffer buffer;
  Parser parser;
  parser.body_limit(max_answer_bytes);
  error_code error;
  co_await beast::http::async_read_header(stream, buffer, parser,
                                          asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    fail(answer, failure_of(error), error);
    co_return false;
  }
  answer.status = static_cast<int>(parser.get().result_int());
  co_return co_await read_body(stream, buffer, parser, answer) && parser.get().keep_alive() &&
      buffer.size() == 0;
}

// Asio's own walk through the places takes a socket that could not be opened for a cancelled one.
asio::awaitable<bool> Client::Impl::connect(Stream& stream, ClientAnswer& answer) {
  error_code error = asio::error::host_not_found;
  for (const auto& place : places) {
    error_code ignored;
    stream.socket().close(ignored);
    stream.socket().open(place.endpoint().protocol(), error);
    if (!error) {
      co_await stream.async_connect(place.endpoint(),
                                    asio::redirect_error(asio::use_awaitable, error));
    }
    if (!error || connect_failure_of(error) != ClientFailure::connect) break;
  }
  if (error) {
    fail(answer, connect_failure_of(error), error);
    co_return false;
  }
  stream.socket().set_option(asio::ip::tcp::no_delay(true), error);
  co_return true;
}

asio::awaitable<ClientAnswer> Client::Impl::exchange(ClientRequest request) {
  for (;;) {
    ClientAnswer answer;
    std::unique_ptr<Stream> stream;
    const bool reused = !idle.empty();
    if (reused) {
      stream = std::move(idle.back());
      idle.pop_back();
    } else {
      stream = std::make_unique<Stream>(context);
    }
    const Enlisted enlisted(running, stream.get());
    stream->expires_after(request.timeout);
    bool keep = false, connected = reused;
    if (!reused && !cancelled) {
      connected = co_await connect(*stream, answer);
    }
    if (connected && !cancelled && co_await send(*stream, request, answer)) {
      keep = co_await receive(*stream, answer);
    }
    answer.ended = ClientAnswer::Clock::now();
    if (cancelled && (answer.failure != ClientFailure::none || answer.status == 0)) {
      fail(answer, ClientFailure::cancelled, asio::error::operation_aborted);
    }
    // A server may close an idle connection just when it is used again.
    if (reused && answer.failure == ClientFailure::closed && answer.status == 0) continue;
    if (keep) {
      stream->expires_never();
      idle.push_back(std::move(stream));
    }
    co_return answer;
  }
}

Result<std::unique_ptr<Client>> Client::open(const std::string& url, const ClientOptions& options) {
  const auto address = split_url(url);
  if (!address || address->target != "/") {
    return Error{ErrorCode::bad_request, "'" + url + "': expected http://host[:port]", "url"};
  }
  auto impl = std::make_unique<Impl>();
  asio::ip::tcp::resolver resolver(impl->context);
  error_code error;
  impl->places = resolver.resolve(address->host, address->port, error);
  if (error) return Error{ErrorCode::unavailable, url + ": " + error.message(), "url"};
  impl->host = host_header(*address);
  if (!options.api_key.empty()) impl->authorization = "Bearer " + options.api_key;
  impl->max_answer_bytes = options.max_answer_bytes;
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->context.run(); });
}

Client::~Client() {
  cancel();
  impl_->work.reset();
  impl_->thread.join();
}

void Client::post(ClientRequest request, Done done) {
  asio::post(impl_->context, [impl = impl_.get(), request = std::move(request),
                              done = std::move(done)]() mutable {
    asio::co_spawn(impl->context, impl->exchange(std::move(request)),
                   [done = std::move(done)](const std::exception_ptr& error, ClientAnswer answer) {
                     done(error ? failed_here(error) : std::move(answer));
                   });
  });
}

void Client::cancel() {
  asio::post(impl_->context, [impl = impl_.get()] {
    impl->cancelled = true;
    impl->idle.clear();
    // Not just cancelled: where a read has ended whose coroutine has yet to go on, that would find
    // nothing to cancel, and the next read would begin.
    for (Stream* stream : impl->running) stream->close();
  });
}

}  // namespace cairn::http
