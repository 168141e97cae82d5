// SPDX-License-Identifier: Apache-2.0
#include "cli/load/served.hpp"

#include <string_view>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "http/fetch.hpp"

namespace cairn::load {
namespace {

std::int64_t integer_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value && value->is(json::Kind::number) ? value->as_int() : 0;
}

}  // namespace

ServedModel Served::model() const {
  http::FetchOptions fetch;
  fetch.api_key = api_key_;
  const auto page = http::fetch(url_ + "/v1/models", fetch);
  if (!page) throw LoadError(page.error().message);
  const auto parsed = json::parse(*page);
  const json::Value* data = parsed.ok() ? parsed->find("data") : nullptr;
  const json::Value* id = data && !data->items().empty() ? data->items()[0].find("id") : nullptr;
  if (!id) throw LoadError(url_ + "/v1/models: expected a list of models");
  const json::Value& first = data->items()[0];
  ServedModel model{id->text(), integer_at(first, "max_model_len"),
                    integer_at(first, "vocab_size")};
  const json::Value* meta = first.find("meta");
  if (meta && model.vocabulary == 0) model.vocabulary = integer_at(*meta, "n_vocab");
  return model;
}

std::optional<Tokens> Served::tokens_of(const std::string& question) const {
  JsonWriter body;
  body.begin_object();
  if (question.starts_with('[')) {
    body.key("messages").raw(question);
  } else {
    body.key("content").string(question);
  }
  body.end_object();
  http::FetchOptions fetch;
  fetch.api_key = api_key_;
  fetch.post = body.take();
  const auto answer = http::fetch(url_ + "/tokenize", fetch);
  const auto parsed = json::parse(answer ? *answer : "");
  const json::Value* ids = parsed.ok() ? parsed->find("tokens") : nullptr;
  if (!ids) return std::nullopt;
  Tokens tokens;
  for (const json::Value& id : ids->items()) {
    tokens.push_back(static_cast<std::int32_t>(id.as_int()));
  }
  return tokens;
}

Series Served::series() const {
  http::FetchOptions fetch;
  fetch.api_key = api_key_;
  const auto page = http::fetch(url_ + "/metrics", fetch);
  return page ? read_series(*page) : Series{};
}

std::string Served::drop_cache() const {
  http::FetchOptions fetch;
  fetch.api_key = admin_key_;
  fetch.post = "";
  const auto dropped = http::fetch(url_ + "/admin/cache/drop", fetch);
  return dropped.ok() ? "" : dropped.error().message;
}

}  // namespace cairn::load
