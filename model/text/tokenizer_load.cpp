// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/check.hpp"
#include "model/text/tokenizer_impl.hpp"
#include "model/text/tokenizer_spec.hpp"

namespace cairn::text {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out(1, '"');
  out += text.substr(0, 80);
  return out += '"';
}

std::int32_t largest_id(const TokenizerSpec& spec) {
  std::int32_t largest = -1;
  for (const auto& [piece, id] : spec.vocab) largest = std::max(largest, id);
  for (const AddedToken& token : spec.added) largest = std::max(largest, token.id);
  return largest;
}

void fill_vocabulary(const TokenizerSpec& spec, Vocabulary& vocabulary) {
  std::vector<bool> taken(static_cast<std::size_t>(vocabulary.size()));
  std::string bytes;
  for (const auto& [piece, id] : spec.vocab) {
    if (taken[static_cast<std::size_t>(id)]) {
      throw LoadError(spec.vocab_file + ": the piece " + in_quotes(piece) + " has id " +
                      std::to_string(id) + " like another piece, expected one piece per id");
    }
    taken[static_cast<std::size_t>(id)] = true;
    // A piece outside the byte alphabet can only be decoded, as its own text.
    bytes.clear();
    const bool spelled = bytes_of_spelling(piece, bytes);
    vocabulary.set(id, spelled ? std::string_view(bytes) : piece);
    if (spelled) vocabulary.index(id);
  }
  for (const AddedToken& token : spec.added) {
    const std::string_view there = vocabulary.bytes(token.id);
    if (taken[static_cast<std::size_t>(token.id)] && there != token.content) {
      throw LoadError(spec.vocab_file + ": id " + std::to_string(token.id) + " belongs to " +
                      in_quotes(there) + " and to the added token " + in_quotes(token.content) +
                      ", expected one piece per id");
    }
    if (there != token.content) vocabulary.set(token.id, token.content);
  }
}

std::array<std::int32_t, 256> byte_ids(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    ids[b] = vocabulary.find({&byte, 1});
    if (ids[b] < 0) {
      throw LoadError(spec.vocab_file + ": the vocabulary has no piece for the byte " +
                      std::to_string(b) + ", expected all 256 bytes");
    }
  }
  return ids;
}

void fill_merges(const TokenizerSpec& spec, const Vocabulary& vocabulary, Bpe& bpe) {
  std::string bytes;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const auto id_of = [&](std::string_view first, std::string_view second) {
      bytes.clear();
      if (bytes_of_spelling(first, bytes) && bytes_of_spelling(second, bytes)) {
        const std::int32_t id = vocabulary.find(bytes);
        if (id >= 0) return id;
      }
      std::string piece(first);
      piece += second;
      throw LoadError(spec.merges_file + ": merge " + std::to_string(rank) + " names the piece " +
                      in_quotes(piece) + ", which the vocabulary lacks");
    };
    bpe.add_merge(id_of(left, ""), id_of(right, ""), static_cast<std::uint32_t>(rank),
                  id_of(left, right));
  }
}

std::optional<std::int32_t> added_id(const TokenizerSpec& spec, std::string_view name) {
  for (const AddedToken& token : spec.added) {
    if (token.content == name) return token.id;
  }
  return std::nullopt;
}

std::optional<std::int32_t> named_id(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                                     const char* field, const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (const auto id = added_id(spec, *name)) return id;
  const std::int32_t id = vocabulary.find(*name);
  if (id >= 0) return id;
  throw LoadError(std::string("tokenizer_config.json: ") + field + " is " + in_quotes(*name) +
                  ", expected a token of the vocabulary");
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && !in.eof()) throw LoadError(path.string() + ": cannot be read");
  if (text.empty()) throw LoadError(path.string() + ": is empty or cannot be read");
  return text;
}

}  // namespace

std::unique_ptr<const Tokenizer::Impl> build_tokenizer(const TokenizerFiles& files) {
  TokenizerSpec spec = read_tokenizer_spec(files);
  auto impl = std::make_unique<Tokenizer::Impl>();
  const auto ids = static_cast<std::size_t>(largest_id(spec) + 1);
  impl->vocabulary = std::make_unique<Vocabulary>(ids);
  fill_vocabulary(spec, *impl->vocabulary);
  const auto bytes = byte_ids(spec, *impl->vocabulary);
  impl->bpe = std::make_unique<Bpe>(*impl->vocabulary, bytes, spec.merges.size());
  fill_merges(spec, *impl->vocabulary, *impl->bpe);
  try {
    impl->pretokenizer = std::make_unique<const Pretokenizer>(spec.pattern);
  } catch (const LoadError& error) {
    throw LoadError(std::string("tokenizer.json: pre_tokenizer.pretokenizers[0].pattern.Regex ") +
                    error.what());
  }
  impl->nfc = spec.nfc;

  impl->pad_id = named_id(spec, *impl->vocabulary, "pad_token", spec.pad_token);
  const auto eos = named_id(spec, *impl->vocabulary, "eos_token", spec.eos_token);
  if (eos) impl->eos_ids.push_back(*eos);
  impl->special.resize(ids);
  for (const AddedToken& token : spec.added) {
    impl->special[static_cast<std::size_t>(token.id)] = token.special;
    if (token.content == "<|endoftext|>" && token.special && eos != token.id) {
      impl->eos_ids.push_back(token.id);
    }
  }
  impl->chat_template = std::move(spec.chat_template);
  impl->added = std::move(spec.added);
  std::sort(impl->added.begin(), impl->added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  impl->raw = AddedMatcher(impl->added, false);
  impl->normalized = AddedMatcher(impl->added, true);
  return impl;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& directory) {
  const std::string tokenizer_json = read_file(directory / "tokenizer.json");
  const std::string config = read_file(directory / "tokenizer_config.json");
  const std::string vocab = tokenizer_json.empty() ? read_file(directory / "vocab.json") : "";
  const std::string merges = tokenizer_json.empty() ? read_file(directory / "merges.txt") : "";
  const std::string jinja = read_file(directory / "chat_template.jinja");
  try {
    return Tokenizer::from_files({tokenizer_json, config, vocab, merges, jinja});
  } catch (const LoadError& error) {
    throw LoadError(directory.string() + "/" + error.what());
  }
}

}  // namespace cairn::text
