// SPDX-License-Identifier: Apache-2.0
// Chat and text completions of a connection: submit, follow the events, notice a client that left.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <exception>
#include <mutex>
#include <random>
#include <utility>

#include "base/log.hpp"
#include "engine/request/openai_answer.hpp"
#include "engine/request/openai_parse.hpp"
#include "http/connection.hpp"

namespace cairn::http {

namespace asio = boost::asio;
namespace openai = engine::openai;
using boost::system::error_code;

namespace {

std::string new_id(bool chat) {
  static std::mutex mutex;
  static std::mt19937_64 random{std::random_device{}()};
  const std::lock_guard lock(mutex);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string id = chat ? "chatcmpl-" : "cmpl-";
  for (int half = 0; half < 2; ++half)
    for (auto bits = random(), i = std::uint64_t{0}; i < 12; ++i, bits >>= 4) id += kHex[bits & 15];
  return id;
}

}  // namespace

struct Connection::Generation {
  std::shared_ptr<Mailbox> mailbox;
  std::vector<RequestId> ids;
  std::optional<openai::Answer> answer;
  bool stream = false;
  bool head_sent = false;
};

// False when the connection is to end.
asio::awaitable<bool> Connection::generate(Request request, bool chat, Framing framing) {
  Generation generation;
  generation.mailbox =
      std::make_shared<Mailbox>(socket_.get_executor(), state_->options.max_unsent_bytes, [this] {
        log(LogLevel::info, "a client reads too slowly; its request is cancelled");
        close_now();
      });
  bool keep = false;
  std::string failure;
  try {
    if (auto refusal = co_await submit(generation, std::move(request), chat)) {
      if (state_->metrics)
        state_->metrics
            ->requests_total(chat ? Endpoint::chat : Endpoint::completions, Outcome::error)
            .add();
      generation.mailbox->close();
      co_return co_await send(*refusal, framing);
    }
    watch(generation.mailbox);
    keep = co_await answer(generation, framing);
  } catch (const std::exception& e) {
    failure = e.what();
  }
  if (!failure.empty() || !generation.answer || !generation.answer->ended() ||
      generation.answer->failure())
    cancel(generation);
  co_await stop_watching();
  generation.mailbox->close();
  if (!failure.empty()) {
    log(LogLevel::error, "an answer ended: " + failure);
    keep = !generation.head_sent && co_await send(internal_error(), framing);
  }
  if (!socket_.is_open()) keep = false;
  co_return keep;
}

void Connection::cancel(const Generation& generation) {
  for (const RequestId id : generation.ids) state_->engine->cancel(id);
}

// A reply when the request does not get as far as the engine.
asio::awaitable<std::optional<Reply>> Connection::submit(Generation& generation, Request request,
                                                         bool chat) {
  // In an optional because Asio wants results that have a default.
  using Parsed = std::optional<Result<openai::ParsedRequest>>;
  Parsed result = co_await asio::co_spawn(
      threads_.text,
      [&request, chat]() -> asio::awaitable<Parsed> {
        co_return chat ? openai::parse_chat(request.body) : openai::parse_completion(request.body);
      },
      asio::use_awaitable);
  const std::string client_key = api_key_of(state_->options, request.authorization);
  request = {};
  if (!result->ok()) co_return error_reply(result->error());
  openai::ParsedRequest parsed = result->take();
  if (auto status = check_model(*state_, parsed.settings.model); !status)
    co_return error_reply(status.error());
  generation.stream = parsed.settings.stream;
  const openai::AnswerIdentity identity{new_id(chat), std::time(nullptr),
                                        state_->engine->info().model_name};
  generation.answer.emplace(parsed.settings, identity, parsed.requests.size());
  for (std::size_t i = 0; i < parsed.requests.size(); ++i) {
    parsed.requests[i].client_key = client_key;
    auto id = state_->engine->submit(std::move(parsed.requests[i]), generation.mailbox->sink(i));
    if (!id) {
      cancel(generation);
      co_return error_reply(id.error());
    }
    generation.ids.push_back(*id);
  }
  co_return std::nullopt;
}

asio::awaitable<bool> Connection::answer(Generation& generation, const Framing& framing) {
  auto& answer = *generation.answer;
  while (!answer.ended()) {
    co_await generation.mailbox->wait();
    if (generation.mailbox->interrupted() || !socket_.is_open()) co_return false;
    for (auto& item : generation.mailbox->take()) answer.add(item.prompt, std::move(item.event));
    if (generation.stream && !(answer.failure() && !generation.head_sent) &&
        !co_await stream_on(generation, framing))
      co_return false;
  }
  if (generation.head_sent) co_return framing.keep_alive && !framing.http_1_0;
  if (answer.failure()) co_return co_await send(error_reply(*answer.failure()), framing);
  co_return co_await send(json_reply(answer.body()), framing);
}

// What the events so far have made, as one write; the head before the first.
asio::awaitable<bool> Connection::stream_on(Generation& generation, const Framing& framing) {
  Framing stream = framing;
  stream.keep_alive = framing.keep_alive && !framing.http_1_0;
  std::string text;
  if (!std::exchange(generation.head_sent, true)) text = stream_head(stream);
  auto& answer = *generation.answer;
  text += stream_part(answer.take_chunks(), answer.ended(), stream);
  co_return co_await write(std::move(text));
}

// Reads while the answer is made: data is the client's next request and is kept, an end means that
// it left. A client that only closes its sending side is taken to have left, too; the two cannot be
// told apart.
void Connection::watch(std::shared_ptr<Mailbox> mailbox) {
  watching_ = true;
  stop_watch_ = false;
  asio::co_spawn(socket_.get_executor(), read_ahead(mailbox),
                 [self = shared_from_this(), mailbox](std::exception_ptr error) {
                   self->watching_ = false;
                   if (error) mailbox->interrupt();
                   self->watch_ended_.cancel();
                 });
}

asio::awaitable<void> Connection::read_ahead(std::shared_ptr<Mailbox> mailbox) {
  const auto self = shared_from_this();
  while (!stop_watch_ && buffer_.size() < buffer_.max_size()) {
    if (co_await read_more()) continue;
    if (!stop_watch_) mailbox->interrupt();
    co_return;
  }
}

asio::awaitable<void> Connection::stop_watching() {
  stop_watch_ = true;
  error_code ignored;
  if (watching_) socket_.cancel(ignored);
  while (watching_) {
    watch_ended_.expires_at(asio::steady_timer::time_point::max());
    co_await watch_ended_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace cairn::http
