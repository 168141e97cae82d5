// SPDX-License-Identifier: Apache-2.0
#include "http/fetch.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/system/system_error.hpp>
#include <charconv>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::use_awaitable;

struct Address {
  std::string host, port, target;
};

std::optional<Address> split(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  url = url.substr(0, url.find('#'));
  const std::size_t path = std::min(url.find('/'), url.size());
  std::string_view host = url.substr(0, path);
  Address out;
  out.target = path == url.size() ? "/" : std::string(url.substr(path));
  // The last colon, unless it stands inside the brackets of an IPv6 address.
  const std::size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  out.port = has_port ? std::string(host.substr(colon + 1)) : "80";
  if (has_port) host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  out.host = std::string(host);
  const auto printable = [](std::string_view s) {
    return s.find_first_of(std::string_view(" \t\r\n\0", 5)) == std::string_view::npos;
  };
  // The resolver would take a number above the last port modulo 65536.
  std::uint16_t port = 0;
  const char* const end = out.port.data() + out.port.size();
  const auto [stop, error] = std::from_chars(out.port.data(), end, port);
  const bool is_port = error == std::errc{} && stop == end;
  if (out.host.empty() || !is_port || !printable(url)) return std::nullopt;
  return out;
}

using Response = beast::http::response<beast::http::string_body>;

asio::awaitable<Response> get(Address to, FetchOptions options) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  const auto places = co_await resolver.async_resolve(to.host, to.port, use_awaitable);
  beast::tcp_stream stream(executor);
  stream.expires_after(options.timeout);
  co_await stream.async_connect(places, use_awaitable);
  beast::http::request<beast::http::empty_body> request(beast::http::verb::get, to.target, 11);
  request.set(beast::http::field::host, to.host + ":" + to.port);
  request.set(beast::http::field::connection, "close");
  if (!options.api_key.empty()) {
    request.set(beast::http::field::authorization, "Bearer " + options.api_key);
  }
  co_await beast::http::async_write(stream, request, use_awaitable);
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(options.max_body_bytes);
  co_await beast::http::async_read(stream, buffer, parser, use_awaitable);
  co_return parser.release();
}

}  // namespace

Result<std::string> fetch(const std::string& url, const FetchOptions& options) {
  const auto address = split(url);
  if (!address) {
    return Error{ErrorCode::bad_request, "'" + url + "': expected http://host[:port]/path", "url"};
  }
  asio::io_context context;
  std::exception_ptr failure;
  std::optional<Response> response;
  asio::co_spawn(context, get(*address, options), [&](std::exception_ptr error, Response answer) {
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
    return Error{ErrorCode::unavailable, url + ": " + error.code().message(), "url"};
  }
  if (response->result() != beast::http::status::ok) {
    return Error{ErrorCode::unavailable,
                 url + " answered " + std::to_string(response->result_int()) + ": " +
                     response->body().substr(0, 300),
                 "url"};
  }
  return std::move(response->body());
}

}  // namespace cairn::http
