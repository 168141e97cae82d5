// SPDX-License-Identifier: Apache-2.0
#include "model/net/weights_file.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "kernels/cpu/quantised.hpp"
#include "model/net/mapped_file.hpp"
#include "model/net/packed_weights.hpp"
#include "model/net/safetensors.hpp"

namespace cairn::model {
namespace {

// Read and checked by one thread at a time: passes through the second-level cache once.
constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
constexpr std::int64_t kPiecesAtOnce = 64;  // between two reports of progress
constexpr const char* kSource = "model files";
constexpr std::size_t kBeginBytes = 256;  // the first tensor of a header stands in them

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  Hash64 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.value();
}

using About = std::vector<std::pair<std::string, std::string>>;

// Of the configuration all but the ids that end a text, which may change.
About about_of(const ModelConfig& config, const WeightsFileKey& key) {
  ModelConfig shape = config;
  shape.eos_token_ids.clear();
  const std::string text = write_model_config(shape);
  return {{"format", kernels::to_string(key.format)},
          {"group", std::to_string(kernels::quant_group(key.format))},
          {"layout", std::to_string(kernels::kQuantisedLayout)},
          {"configuration", hex_digits(sum_of(std::as_bytes(std::span(text))))},
          {kSource, key.source ? hex_digits(key.source->hash) : std::string()}};
}

std::string text_of(const About& about) {
  std::string text;
  for (const auto& [name, value] : about) text.append(name).append("=").append(value).append("\n");
  return text;
}

// Why `stored` is not the file that is looked for; "" when it is.
std::string difference(std::string_view stored, const About& wanted) {
  for (const auto& [name, value] : wanted) {
    const std::string_view line = stored.substr(0, stored.find('\n'));
    stored.remove_prefix(std::min(stored.size(), line.size() + 1));
    std::string why = "its ";
    if (!line.starts_with(name) || line.substr(name.size(), 1) != "=") {
      return why.append(name).append(" is not told");
    }
    const std::string_view found = line.substr(name.size() + 1);
    if (found == value || (name == kSource && value.empty())) continue;
    if (name == kSource) return "it was made of other files";
    return why.append(name).append(" is ").append(found).append(", expected ").append(value);
  }
  return stored.empty() ? "" : "it says more than is known here";
}

// Bytes that one thread moves and one checksum covers.
template <class Byte>
struct Piece {
  std::span<Byte> memory;
  std::size_t at = 0;  // in the file
};

template <class Byte>
void cut(std::span<Byte> memory, std::size_t at, std::vector<Piece<Byte>>& out) {
  while (!memory.empty()) {
    const std::size_t n = std::min(kPieceBytes, memory.size());
    out.push_back({memory.first(n), at});
    memory = memory.subspan(n);
    at += n;
  }
}

// fn(piece) on all threads, with progress on this one.
template <class Byte, class F>
void for_pieces(const std::vector<Piece<Byte>>& pieces, kernels::ThreadPool& pool,
                const LoadProgress& progress, F&& fn) {
  std::uint64_t total = 0;
  for (const auto& piece : pieces) total += piece.memory.size();
  std::uint64_t done = 0;
  const auto count = static_cast<std::int64_t>(pieces.size());
  for (std::int64_t begin = 0; begin < count; begin += kPiecesAtOnce) {
    const std::int64_t n = std::min(kPiecesAtOnce, count - begin);
    pool.run(n, [&](std::int64_t i) { fn(static_cast<std::size_t>(begin + i)); });
    for (std::int64_t i = 0; i < n; ++i) {
      done += pieces[static_cast<std::size_t>(begin + i)].memory.size();
    }
    if (progress) progress(done, total);
  }
}

std::string_view text_in(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

Error refusal(const std::string& why) { return {ErrorCode::unsupported, why, ""}; }

}  // namespace

Result<std::shared_ptr<const Weights>> read_weights_file(const std::string& path,
                                                         const ModelConfig& config,
                                                         const WeightsFileKey& key,
                                                         kernels::ThreadPool& pool,
                                                         const LoadProgress& progress) {
  try {
    const MappedFile file(path);
    const std::vector<TensorView> tensors = parse_safetensors(file.bytes(), path);
    if (tensors.size() < 3 || tensors[0].name != "about" || tensors[1].name != "hash" ||
        tensors[1].data.size() != sizeof(std::uint64_t) || tensors.back().name != "checksums") {
      return refusal("it is no file of weights in memory");
    }
    if (std::string why = difference(text_in(tensors[0]), about_of(config, key)); !why.empty()) {
      return refusal(why);
    }
    const std::shared_ptr<Weights> weights = empty_weights(config, key.format);
    std::vector<Piece<std::byte>> pieces;
    std::string about(tensors[0].data.size(), '\0');
    std::size_t next = 0;
    bool same = true;
    const auto take = [&](const std::string& name, std::span<std::byte> memory) {
      same = same && next + 1 < tensors.size() && tensors[next].name == name &&
             tensors[next].data.size() == memory.size();
      if (!same) return;
      cut(memory, static_cast<std::size_t>(tensors[next].data.data() - file.bytes().data()),
          pieces);
      ++next;
    };
    take("about", std::as_writable_bytes(std::span(about)));
    take("hash", std::as_writable_bytes(std::span(&weights->hash, 1)));
    for_tensor_memory(*weights, take);
    const std::span<const std::byte> sums = tensors.back().data;
    if (!same || next + 1 != tensors.size() ||
        sums.size() != pieces.size() * sizeof(std::uint64_t)) {
      return refusal("its tensors are not those of this model");
    }
    for_pieces(pieces, pool, progress, [&](std::size_t i) {
      const Piece<std::byte>& piece = pieces[i];
      const auto from = file.bytes().subspan(piece.at, piece.memory.size());
      std::memcpy(piece.memory.data(), from.data(), from.size());
      std::uint64_t sum = 0;
      std::memcpy(&sum, sums.data() + i * sizeof sum, sizeof sum);
      // What is in memory is checked, not what was in the file: they are the same, or it fails.
      if (sum_of(piece.memory) != sum) {
        throw LoadError("it is damaged at byte " + std::to_string(piece.at));
      }
      file.drop(from);
    });
    return std::shared_ptr<const Weights>(weights);
  } catch (const LoadError& e) {
    return refusal(e.what());
  }
}

std::uint64_t write_weights_file(NewFile& file, const Weights& weights, const WeightsFileKey& key,
                                 kernels::ThreadPool& pool, const LoadProgress& progress) {
  check(weights.format == key.format, "weights are written in the format they have");
  const std::string about = text_of(about_of(weights.config, key));
  std::vector<TensorEntry> entries;
  std::vector<Piece<const std::byte>> pieces;
  const auto add = [&](const std::string& name, std::span<const std::byte> memory) {
    entries.push_back({name, "U8", {static_cast<std::int64_t>(memory.size())}});
    cut(memory, 0, pieces);
  };
  add("about", std::as_bytes(std::span(about)));
  add("hash", std::as_bytes(std::span(&weights.hash, 1)));
  for_tensor_memory(weights, add);
  entries.push_back({"checksums", "U64", {static_cast<std::int64_t>(pieces.size())}});

  std::vector<std::uint64_t> sums(pieces.size());
  for_pieces(pieces, pool, {}, [&](std::size_t i) { sums[i] = sum_of(pieces[i].memory); });

  const std::string header = safetensors_header(entries);
  file.write(header.data(), header.size());
  std::uint64_t total = header.size() + sums.size() * sizeof(std::uint64_t);
  for (const auto& piece : pieces) total += piece.memory.size();
  std::uint64_t done = header.size();
  for (const auto& piece : pieces) {
    file.write(piece.memory.data(), piece.memory.size());
    done += piece.memory.size();
    if (progress) progress(done, total);
  }
  file.write(sums.data(), sums.size() * sizeof(std::uint64_t));
  // Every start checks every byte: waiting for the disk would buy nothing.
  file.commit(false);
  if (progress) progress(total, total);
  return total;
}

bool may_be_weights_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string begin(kBeginBytes, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return begin.empty() || begin.find("\"about\"") != begin.npos;
}

}  // namespace cairn::model
