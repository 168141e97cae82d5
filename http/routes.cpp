// SPDX-License-Identifier: Apache-2.0
#include "http/routes.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/log.hpp"
#include "base/quote.hpp"
#include "engine/request/openai_objects.hpp"
#include "engine/request/openai_parse.hpp"
#include "http/status.hpp"

namespace cairn::http {
namespace {

namespace openai = engine::openai;

constexpr std::chrono::seconds kAdminPatience{10};

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string_view path_of(std::string_view target) {
  if (const auto scheme = target.find("://");
      scheme != std::string_view::npos && target[0] != '/') {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  target = target.substr(0, target.find_first_of("?#"));
  while (target.size() > 1 && target.back() == '/') target.remove_suffix(1);
  return target;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i)
    difference |= static_cast<unsigned char>(b[i]) ^
                  static_cast<unsigned char>(a.empty() ? 0 : a[i % a.size()]);
  return difference == 0;
}

// The key in a value of Authorization; "" when there is none.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if ((header[i] | (header[i] == ' ' ? 0 : 0x20)) != kScheme[i]) return {};
  header.remove_prefix(kScheme.size());
  while (!header.empty() && header.front() == ' ') header.remove_prefix(1);
  return header;
}

enum class Guard { none, api_key, admin_key };

Guard guard_of(const State& state, Route route) {
  if (route == Route::drop_cache) return Guard::admin_key;
  if (route == Route::plan)
    return state.engine->info().cache_scope == "key" ? Guard::admin_key : Guard::api_key;
  const bool keyed =
      is_post(route) || route == Route::models || route == Route::model || route == Route::unknown;
  return keyed ? Guard::api_key : Guard::none;
}

std::vector<std::string> served_names(const State& state) {
  std::vector<std::string> names = {state.engine->info().model_name};
  for (const auto& alias : state.options.model_aliases)
    if (std::find(names.begin(), names.end(), alias) == names.end()) names.push_back(alias);
  return names;
}

Reply health(const State& state) {
  const Health health = state.engine->health();
  const bool draining = state.draining;
  if (health.ready && !draining) return json_reply(R"({"status":"ok"})");
  JsonWriter json;
  json.begin_object().key("status").string("unavailable").key("reason");
  json.string(draining ? "The server is shutting down." : health.reason).end_object();
  Reply reply = json_reply(json.take());
  reply.status = 503;
  return reply;
}

Reply metrics_page(const State& state) {
  if (!state.metrics) return error_reply(404, "Metrics are switched off.", "not_found");
  Reply reply;
  reply.type = Metrics::content_type();
  reply.body = state.metrics->render();
  return reply;
}

openai::ModelFacts facts_of(const State& state) {
  const EngineInfo& info = state.engine->info();
  return {state.started_unix, info.context_length, info.vocab_size};
}

Reply one_model(const State& state, const std::string& id) {
  if (auto status = check_model(state, id); !status) return error_reply(status.error());
  return json_reply(openai::model_body(id, facts_of(state)));
}

Reply tokenize(const State& state, std::string_view body) {
  const auto parsed = openai::parse_tokenize(body);
  if (!parsed) return error_reply(parsed.error());
  if (auto status = check_model(state, parsed->model); !status) return error_reply(status.error());
  const auto tokens = state.engine->tokenize(parsed->prompt);
  if (!tokens) return error_reply(tokens.error());
  return json_reply(openai::tokenize_body(*tokens, state.engine->info().context_length));
}

Reply detokenize(const State& state, std::string_view body) {
  const auto parsed = openai::parse_detokenize(body);
  if (!parsed) return error_reply(parsed.error());
  if (auto status = check_model(state, parsed->model); !status) return error_reply(status.error());
  const auto text = state.engine->detokenize(parsed->tokens, parsed->skip_special);
  if (!text) return error_reply(text.error());
  return json_reply(openai::detokenize_body(*text));
}

Reply plan(const State& state) {
  auto json = state.engine->plan_json(kAdminPatience);
  return json ? json_reply(json.take()) : error_reply(json.error());
}

Reply drop_cache(const State& state) {
  const auto dropped = state.engine->drop_cache(kAdminPatience);
  if (!dropped) return error_reply(dropped.error());
  log(LogLevel::info,
      "the cache was dropped on the admin's word: " + std::to_string(dropped->states) +
          " states in memory, " + std::to_string(dropped->disk_states) + " on disk");
  JsonWriter json;
  json.begin_object().key("dropped").begin_object();
  json.key("paths").integer(dropped->paths);
  json.key("states").integer(dropped->states);
  json.key("bytes").unsigned_integer(dropped->bytes);
  json.key("disk_states").integer(dropped->disk_states);
  json.key("disk_bytes").unsigned_integer(dropped->disk_bytes);
  json.end_object().end_object();
  return json_reply(json.take());
}

}  // namespace

Target find_route(std::string_view target) {
  const auto path = path_of(target);
  constexpr std::pair<std::string_view, Route> kPaths[] = {
      {"/", Route::home},
      {"/status", Route::status},
      {"/health", Route::health},
      {"/metrics", Route::metrics},
      {"/v1/models", Route::models},
      {"/v1/chat/completions", Route::chat},
      {"/v1/completions", Route::completions},
      {"/tokenize", Route::tokenize},
      {"/detokenize", Route::detokenize},
      {"/debug/plan", Route::plan},
      {"/admin/cache/drop", Route::drop_cache},
  };
  for (const auto& [known, route] : kPaths)
    if (path == known) return {route, ""};
  constexpr std::string_view kModel = "/v1/models/";
  if (path.starts_with(kModel)) return {Route::model, percent_decoded(path.substr(kModel.size()))};
  return {};
}

bool is_post(Route route) {
  return route == Route::chat || route == Route::completions || route == Route::tokenize ||
         route == Route::detokenize || route == Route::drop_cache;
}

Work work_of(Route route) {
  if (route == Route::plan || route == Route::drop_cache) return Work::waiting;
  return is_post(route) ? Work::text : Work::none;
}

std::string_view allowed_methods(Route route) {
  return is_post(route) ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

std::string api_key_of(const ServerOptions& options, std::string_view header) {
  const std::string_view given = bearer(header);
  std::string found;
  for (const auto& key : options.api_keys)
    if (equal_in_constant_time(given, key)) found = key;
  return found;
}

std::optional<Reply> refuse_entry(const State& state, Route route, std::string_view header) {
  const ServerOptions& options = state.options;
  const Guard guard = guard_of(state, route);
  if (guard == Guard::none) return std::nullopt;
  const bool is_admin =
      !options.admin_key.empty() && equal_in_constant_time(bearer(header), options.admin_key);
  if (guard == Guard::admin_key) {
    if (options.admin_key.empty())
      return error_reply(404, "This is for the admin; the server has no admin key.", "not_found");
    if (!is_admin) return missing_key("admin");
    return std::nullopt;
  }
  const bool may_enter = options.api_keys.empty() || !api_key_of(options, header).empty() ||
                         (is_admin && route == Route::plan);
  if (!may_enter) return missing_key("API");
  return std::nullopt;
}

Status check_model(const State& state, const std::string& model) {
  if (model.empty()) return ok_status();
  const auto names = served_names(state);
  if (std::find(names.begin(), names.end(), model) != names.end()) return ok_status();
  return Error{
      ErrorCode::not_found,
      "The model " + quoted(model) + " does not exist; this server has " + quoted(names[0]) + ".",
      "model"};
}

std::optional<Reply> answer_at_the_door(const State& state, const Target& target,
                                        const std::string& method, std::string_view authorization) {
  const std::string allowed(allowed_methods(target.route));
  if (method == "OPTIONS") {
    Reply reply;
    reply.status = 204;
    reply.headers = {{"Allow", allowed}};
    if (!state.options.cors_origin.empty()) {
      reply.headers.emplace_back("Access-Control-Allow-Methods", allowed);
      reply.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
    }
    return reply;
  }
  if (auto refusal = refuse_entry(state, target.route, authorization)) return refusal;
  const bool fits = is_post(target.route) ? method == "POST" : method == "GET" || method == "HEAD";
  if (target.route != Route::unknown && !fits) {
    Reply reply = error_reply(405, "This path does not take " + shortened(method) + ".",
                              "method_not_allowed");
    reply.headers.emplace_back("Allow", allowed);
    return reply;
  }
  if (state.draining && is_post(target.route))
    return error_reply(503, "The server is shutting down.", "service_unavailable");
  return std::nullopt;
}

Reply answer_simple(State& state, const Target& target, std::string_view body) try {
  switch (target.route) {
    case Route::home: {
      Reply reply;
      reply.type = "text/html; charset=utf-8";
      reply.body = home_page();
      return reply;
    }
    case Route::status:
      return json_reply(status_body(state));
    case Route::health:
      return health(state);
    case Route::metrics:
      return metrics_page(state);
    case Route::models:
      return json_reply(openai::models_body(served_names(state), facts_of(state)));
    case Route::model:
      return one_model(state, target.argument);
    case Route::tokenize:
      return tokenize(state, body);
    case Route::detokenize:
      return detokenize(state, body);
    case Route::plan:
      return plan(state);
    case Route::drop_cache:
      return drop_cache(state);
    case Route::chat:
    case Route::completions:
    case Route::unknown:
      break;
  }
  return error_reply(404, "There is nothing at this path. GET / shows what this server is.",
                     "not_found");
} catch (const std::exception& e) {
  log(LogLevel::error, std::string("a request failed: ") + e.what());
  return internal_error();
}

}  // namespace cairn::http
