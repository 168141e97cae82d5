// SPDX-License-Identifier: Apache-2.0
#include "http/server.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "http/connection.hpp"

namespace cairn::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::int64_t kRefusedAtOnce = 64;  // connections over the limit that still get a reason
constexpr std::chrono::milliseconds kAcceptPause{50};  // after an accept that failed

std::string seconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + " s";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> limits_of(const ServerOptions& o) {
  return {
      {"body", format_bytes(o.max_body_bytes)},
      {"bodies being received", format_bytes(o.max_bodies_bytes)},
      {"headers", format_bytes(o.max_header_bytes)},
      {"connections", std::to_string(o.max_connections)},
      {"unsent part of a stream", format_bytes(o.max_unsent_bytes)},
      {"time to send a request", seconds(o.request_timeout)},
      {"idle connection", seconds(o.idle_timeout)},
  };
}

Status check_keys(const ServerOptions& o, std::string_view cache_scope) {
  const auto bad = [](const char* why) { return Error{ErrorCode::bad_request, why, ""}; };
  if (cache_scope == "key" && o.api_keys.empty())
    return bad("a cache divided by key needs API keys: every client would be the same one");
  if (!o.admin_key.empty() && std::count(o.api_keys.begin(), o.api_keys.end(), o.admin_key) > 0)
    return bad("the admin key must not be one of the API keys");
  return ok_status();
}

struct Server::Impl {
  std::shared_ptr<State> state;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::optional<WorkThreads> work_threads;
  tcp::acceptor acceptor{asio::make_strand(io)};
  std::vector<std::thread> threads;

  std::mutex mutex;  // guards the rest
  std::condition_variable connection_ended;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::uint16_t port = 0;
  bool stopped = false;

  Status bind();
  asio::awaitable<void> accept();
  void start_connection(tcp::socket socket);
  void close_connections(bool only_idle);
  void run();
};

Status Server::Impl::bind() {
  const auto& options = state->options;
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.address, std::to_string(options.port),
                                      tcp::resolver::passive, error);
  if (!error && found.empty()) error = asio::error::host_not_found;
  if (!error) {
    const tcp::endpoint endpoint = *found.begin();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (!error) port = acceptor.local_endpoint(error).port();
  if (!error) return ok_status();
  return Error{ErrorCode::unavailable,
               "cannot listen on " + options.address + ":" + std::to_string(options.port) + ": " +
                   error.message(),
               ""};
}

asio::awaitable<void> Server::Impl::accept() {
  asio::steady_timer pause(acceptor.get_executor());
  while (!state->draining) {
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(
        asio::make_strand(io), asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      start_connection(std::move(socket));
      continue;
    }
    if (!acceptor.is_open()) break;
    pause.expires_after(kAcceptPause);  // out of file descriptors, most likely
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

void Server::Impl::start_connection(tcp::socket socket) {
  const auto connection = std::make_shared<Connection>(std::move(socket), state, *work_threads);
  std::int64_t others = 0;
  {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    others = std::ssize(connections);
    if (others >= state->options.max_connections + kRefusedAtOnce) return;
    connections.insert(connection);
  }
  const bool full = others >= state->options.max_connections;
  asio::co_spawn(connection->strand(), full ? connection->refuse() : connection->run(),
                 [this, connection](std::exception_ptr) {
                   const std::lock_guard lock(mutex);
                   connections.erase(connection);
                   connection_ended.notify_all();
                 });
}

void Server::Impl::close_connections(bool only_idle) {
  const std::lock_guard lock(mutex);
  for (const auto& connection : connections) connection->close(only_idle);
}

void Server::Impl::run() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& e) {
      log(LogLevel::error, std::string("a handler of the server threw: ") + e.what());
    }
  }
}

Server::Server(std::shared_ptr<Engine> engine, std::shared_ptr<Metrics> metrics,
               ServerOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->state = std::make_shared<State>();
  impl_->state->engine = std::move(engine);
  impl_->state->metrics = std::move(metrics);
  impl_->state->options = std::move(options);
  impl_->state->started_unix = std::time(nullptr);
}

Server::~Server() { stop(std::chrono::milliseconds(0)); }

Status Server::start() {
  const State& state = *impl_->state;
  if (auto status = check_keys(state.options, state.engine->info().cache_scope); !status)
    return status;
  if (auto status = impl_->bind(); !status) return status;
  impl_->work_threads.emplace(std::max(1, impl_->state->options.text_threads));
  asio::co_spawn(impl_->acceptor.get_executor(), impl_->accept(), [](std::exception_ptr error) {
    if (error) log(LogLevel::error, "the server accepts no more connections");
  });
  for (int i = 0; i < std::max(1, impl_->state->options.io_threads); ++i)
    impl_->threads.emplace_back([impl = impl_.get()] { impl->run(); });
  return ok_status();
}

std::uint16_t Server::port() const { return impl_->port; }

std::int64_t Server::connections() const {
  const std::lock_guard lock(impl_->mutex);
  return std::ssize(impl_->connections);
}

void Server::begin_drain() {
  if (impl_->state->draining.exchange(true)) return;
  asio::post(impl_->acceptor.get_executor(), [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
  });
  impl_->close_connections(true);
}

void Server::stop(std::chrono::milliseconds drain) {
  begin_drain();
  {
    std::unique_lock lock(impl_->mutex);
    impl_->connection_ended.wait_for(lock, drain, [this] { return impl_->connections.empty(); });
    if (std::exchange(impl_->stopped, true)) return;
  }
  impl_->close_connections(false);
  impl_->work.reset();
  for (auto& thread : impl_->threads) thread.join();
  if (impl_->work_threads) impl_->work_threads->join();
}

}  // namespace cairn::http
