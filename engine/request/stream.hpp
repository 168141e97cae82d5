// SPDX-License-Identifier: Apache-2.0
// One choice's tokens become text: detokenizing, stop strings, log-probs. Sits below the answer's
// format, so that stop strings work for every client.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/request/stop_matcher.hpp"
#include "model/net/sampler.hpp"
#include "model/text/detokenizer.hpp"

namespace cairn::engine {

/// One owner, used by one thread at a time.
class ChoiceStream {
 public:
  /// `tokenizer` may be null (a model of ids only): text stays empty then.
  ChoiceStream(std::shared_ptr<const text::Tokenizer> tokenizer,
               const std::vector<std::string>& stops, bool skip_special_tokens, bool logprobs);

  /// Takes the next token and appends to `out` what may be shown now. A token that ended the answer
  /// (`is_stop`) shows nothing.
  void push(std::int32_t token, bool is_stop, const model::TokenLogprobs& logprobs, Delta& out);
  /// The answer ended without a stop string: shows what was held back.
  void finish(Delta& out);
  /// A stop string completed; later tokens are ignored.
  bool stopped() const { return matcher_.stopped(); }
  /// Tokens generated so far, those of a stop string and a final stop token included.
  std::int32_t generated() const { return generated_; }

 private:
  struct Held {
    std::int32_t token = 0;
    std::size_t begin = 0;  // bytes of text before it
    TokenInfo info;
  };
  void release(std::size_t shown_end, bool all, Delta& out);

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<text::Detokenizer> detokenizer_;
  StopMatcher matcher_;
  bool logprobs_;
  std::int32_t generated_ = 0;
  std::size_t seen_bytes_ = 0;   // text out of the detokenizer
  std::size_t shown_bytes_ = 0;  // of it, handed out
  std::deque<Held> held_;        // tokens whose text has not been shown yet
};

/// A token's report with its bytes, for the API.
TokenInfo token_info(const text::Tokenizer* tokenizer, const model::TokenLogprobs& logprobs);

}  // namespace cairn::engine
