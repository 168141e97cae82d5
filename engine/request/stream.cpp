// SPDX-License-Identifier: Apache-2.0
#include "engine/request/stream.hpp"

#include <utility>

namespace cairn::engine {
namespace {

TokenLogprob with_bytes(const text::Tokenizer* tokenizer, const model::TokenLogprob& from) {
  return {from.token, from.logprob,
          tokenizer ? std::string(tokenizer->id_to_bytes(from.token)) : std::string()};
}

}  // namespace

TokenInfo token_info(const text::Tokenizer* tokenizer, const model::TokenLogprobs& logprobs) {
  TokenInfo info;
  info.chosen = with_bytes(tokenizer, logprobs.chosen);
  info.top.reserve(logprobs.top.size());
  for (const auto& t : logprobs.top) info.top.push_back(with_bytes(tokenizer, t));
  return info;
}

ChoiceStream::ChoiceStream(std::shared_ptr<const text::Tokenizer> tokenizer,
                           const std::vector<std::string>& stops, bool skip_special_tokens,
                           bool logprobs)
    : tokenizer_(std::move(tokenizer)), matcher_(stops), logprobs_(logprobs) {
  if (tokenizer_) {
    detokenizer_ = std::make_unique<text::Detokenizer>(tokenizer_, skip_special_tokens);
  }
}

void ChoiceStream::push(std::int32_t token, bool is_stop, const model::TokenLogprobs& logprobs,
                        Delta& out) {
  if (stopped()) return;
  ++generated_;
  if (is_stop) return;
  held_.push_back(
      {token, seen_bytes_, logprobs_ ? token_info(tokenizer_.get(), logprobs) : TokenInfo{}});
  if (!detokenizer_) return release(0, true, out);
  const std::string text = detokenizer_->push(token);
  seen_bytes_ += text.size();
  const std::string shown = matcher_.push(text);
  shown_bytes_ += shown.size();
  out.text += shown;
  release(shown_bytes_, !stopped() && matcher_.held_bytes() == 0, out);
  if (stopped()) held_.clear();
}

void ChoiceStream::finish(Delta& out) {
  if (stopped() || !detokenizer_) return;
  out.text += matcher_.push(detokenizer_->flush());
  if (!stopped()) out.text += matcher_.finish();
  release(0, true, out);
}

// A token goes out with the first byte of its text; with nothing held back, tokens without text go
// too.
void ChoiceStream::release(std::size_t shown_end, bool all, Delta& out) {
  while (!held_.empty() && (all || held_.front().begin < shown_end)) {
    out.tokens.push_back(held_.front().token);
    if (logprobs_) out.logprobs.push_back(std::move(held_.front().info));
    held_.pop_front();
  }
}

}  // namespace cairn::engine
