// SPDX-License-Identifier: Apache-2.0
#include "model/text/detokenizer.hpp"

#include "model/text/unicode.hpp"

namespace cairn::text {

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    if (step.state == Utf8State::incomplete) {
      pending_ = bytes;
      return;
    }
    out += step.state == Utf8State::valid ? bytes.substr(0, step.length) : kReplacement;
    bytes.remove_prefix(step.length);
  }
}

void Utf8Stream::flush(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

std::string Detokenizer::push(std::int32_t id) {
  std::string out;
  if (!(skip_special_ && tokenizer_->is_special(id)))
    stream_.push(tokenizer_->id_to_bytes(id), out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  stream_.flush(out);
  return out;
}

}  // namespace cairn::text
