// SPDX-License-Identifier: Apache-2.0
#include "http/fetch.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "http/url.hpp"

namespace cairn::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::use_awaitable;

using Response = beast::http::response<beast::http::string_body>;

asio::awaitable<Response> ask(Address to, FetchOptions options) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  const auto places = co_await resolver.async_resolve(to.host, to.port, use_awaitable);
  beast::tcp_stream stream(executor);
  stream.expires_after(options.timeout);
  co_await stream.async_connect(places, use_awaitable);
  const auto verb = options.post ? beast::http::verb::post : beast::http::verb::get;
  beast::http::request<beast::http::string_body> request(verb, to.target, 11);
  request.set(beast::http::field::host, host_header(to));
  request.set(beast::http::field::connection, "close");
  if (!options.api_key.empty()) {
    request.set(beast::http::field::authorization, "Bearer " + options.api_key);
  }
  if (options.post) {
    request.set(beast::http::field::content_type, "application/json");
    request.body() = *options.post;
    request.prepare_payload();
  }
  co_await beast::http::async_write(stream, request, use_awaitable);
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(options.max_body_bytes);
  co_await beast::http::async_read(stream, buffer, parser, use_awaitable);
  co_return parser.release();
}

/// The start of what came, as part of a sentence.
std::string one_line(const std::string& body) {
  constexpr std::size_t kMost = 200;
  std::string out;
  for (const char c : body.substr(0, kMost)) {
    const bool blank = c >= '\0' && c <= ' ';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

}  // namespace

Result<std::string> fetch(const std::string& url, const FetchOptions& options) {
  const auto address = split_url(url);
  if (!address) {
    return Error{ErrorCode::bad_request, "'" + url + "': expected http://host[:port]/path", "url"};
  }
  asio::io_context context;
  std::exception_ptr failure;
  std::optional<Response> response;
  asio::co_spawn(context, ask(*address, options),
                 [&](const std::exception_ptr& error, Response answer) {
                   failure = error;
                   response = std::move(answer);
                 });
  context.run_for(options.timeout);  // name resolution has no deadline of its own
  if (!failure && !response) {
    return Error{ErrorCode::deadline, url + ": no answer in time", "url"};
  }
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    if (error.code() == beast::http::error::bad_version) {
      return Error{ErrorCode::unavailable, url + ": what answers does not speak HTTP", "url"};
    }
    return Error{ErrorCode::unavailable, url + ": " + error.code().message(), "url"};
  }
  if (response->result() != beast::http::status::ok) {
    return Error{ErrorCode::unavailable,
                 url + " answered " + std::to_string(response->result_int()) + ": " +
                     one_line(response->body()),
                 "url"};
  }
  return std::move(response->body());
}

}  // namespace cairn::http
