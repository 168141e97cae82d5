// SPDX-License-Identifier: Apache-2.0
// Which path does what, and the answers that need no generation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/reply.hpp"
#include "http/state.hpp"

namespace cairn::http {

enum class Route {
  unknown,
  home,
  status,
  health,
  metrics,
  models,
  model,
  tokenize,
  detokenize,
  plan,
  drop_cache,
  chat,
  completions
};

struct Target {
  Route route = Route::unknown;
  std::string argument;  // the id in /v1/models/{id}
};

/// Understands origin and absolute form; the query and a trailing slash do not matter.
Target find_route(std::string_view target);

/// "GET, HEAD, OPTIONS" or "POST, OPTIONS".
std::string_view allowed_methods(Route route);
bool is_post(Route route);
/// Whose thread makes an answer: the connections' own must not be held up, and those for text not
/// by who waits for the cache.
enum class Work { none, text, waiting };
Work work_of(Route route);

/// `header` is the value of Authorization. The API key in it; "" when there is none or a wrong one.
/// Takes the same time whatever the key.
std::string api_key_of(const ServerOptions& options, std::string_view header);
/// The reply to who may not ask for this: no or a wrong key, or an endpoint that is switched off.
/// The page about the plan shows something of everybody's prompts: where these are divided by key
/// it is the admin's.
std::optional<Reply> refuse_entry(const State& state, Route route, std::string_view header);

/// not_found when `model` is neither empty nor a name of the served model.
Status check_model(const State& state, const std::string& model);

/// The reply to a request that its first lines decide: OPTIONS, a missing key, a wrong method, a
/// server that drains.
std::optional<Reply> answer_at_the_door(const State& state, const Target& target,
                                        const std::string& method, std::string_view authorization);

/// Everything but chat and completions.
Reply answer_simple(State& state, const Target& target, std::string_view body);

/// The page at /.
std::string_view home_page();

}  // namespace cairn::http
