// SPDX-License-Identifier: Apache-2.0
#include "model/net/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/check.hpp"
#include "base/json.hpp"

namespace cairn::model {
namespace {

constexpr std::size_t kLengthBytes = 8;
// The format allows 100 MB; a dense model needs some 100 kB and a JSON tree is many times its text.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;
constexpr std::int64_t kMaxRank = 8;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw LoadError(file + ": " + what + ".");
}

[[noreturn]] void fail(const std::string& file, const std::string& tensor,
                       const std::string& what) {
  throw LoadError(file + ": tensor " + tensor + ": " + what + ".");
}

std::int64_t count(const json::Value& v, const std::string& file, const std::string& tensor,
                   const char* field) {
  if (!v.is_integer() || v.text().front() == '-' || v.as_int() == INT64_MAX) {
    fail(file, tensor, std::string(field) + " holds something that is not a count");
  }
  return v.as_int();
}

// Bytes that shape and dtype ask for; fails when the product leaves int64.
std::int64_t wanted_bytes(const TensorView& t, std::size_t item, const std::string& file) {
  auto bytes = static_cast<std::int64_t>(item);
  for (const std::int64_t n : t.shape) {
    if (__builtin_mul_overflow(bytes, n, &bytes)) {
      fail(file, t.name, "shape " + format_shape(t.shape) + " asks for more bytes than can exist");
    }
  }
  return bytes;
}

TensorView read_entry(const std::string& name, const json::Value& v,
                      std::span<const std::byte> data, const std::string& file) {
  TensorView t;
  t.name = name;
  const json::Value* dtype = v.find("dtype");
  const json::Value* shape = v.find("shape");
  const json::Value* offsets = v.find("data_offsets");
  if (dtype == nullptr || !dtype->is(json::Kind::string)) fail(file, name, "expected a dtype");
  if (shape == nullptr || !shape->is(json::Kind::array)) fail(file, name, "expected a shape");
  if (offsets == nullptr || offsets->items().size() != 2) {
    fail(file, name, "expected data_offsets with a begin and an end");
  }
  t.dtype = dtype->text();
  const std::size_t item = dtype_size(t.dtype);
  if (item == 0) fail(file, name, "dtype \"" + t.dtype + "\" is unknown");
  if (shape->items().size() > static_cast<std::size_t>(kMaxRank)) {
    fail(file, name, "has more than " + std::to_string(kMaxRank) + " dimensions");
  }
  for (const json::Value& n : shape->items()) t.shape.push_back(count(n, file, name, "shape"));
  const std::int64_t begin = count(offsets->items()[0], file, name, "data_offsets");
  const std::int64_t end = count(offsets->items()[1], file, name, "data_offsets");
  if (begin > end || static_cast<std::uint64_t>(end) > data.size()) {
    fail(file, name,
         "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
             "] leave the file, which has " + std::to_string(data.size()) +
             " bytes of data; is it truncated?");
  }
  const std::int64_t wanted = wanted_bytes(t, item, file);
  if (wanted != end - begin) {
    fail(file, name,
         "shape " + format_shape(t.shape) + " of " + t.dtype + " needs " + std::to_string(wanted) +
             " bytes, data_offsets give " + std::to_string(end - begin));
  }
  t.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  return t;
}

// The format wants the data filled from its first to its last byte, each once.
void require_gapless(const std::vector<TensorView>& sorted, std::span<const std::byte> data,
                     const std::string& file) {
  const std::byte* at = data.data();
  std::string before = "the header";
  for (const TensorView& t : sorted) {
    if (t.data.data() != at) {
      fail(file, t.name,
           "begins at data byte " + std::to_string(t.data.data() - data.data()) + ", expected " +
               std::to_string(at - data.data()) + ", where " + before + " ends");
    }
    at += t.data.size();
    before = t.name;
  }
  if (at != data.data() + data.size()) {
    fail(file, "has " + std::to_string(data.data() + data.size() - at) +
                   " bytes after its last tensor, expected none");
  }
}

}  // namespace

std::int64_t TensorView::elements() const {
  return static_cast<std::int64_t>(data.size() / dtype_size(dtype));
}

std::string format_shape(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return out + "]";
}

std::size_t dtype_size(std::string_view dtype) {
  struct Known {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr std::array kKnown{
      Known{"BF16", 2}, Known{"F32", 4}, Known{"F16", 2},  Known{"F64", 8},     Known{"I64", 8},
      Known{"I32", 4},  Known{"I16", 2}, Known{"I8", 1},   Known{"U64", 8},     Known{"U32", 4},
      Known{"U16", 2},  Known{"U8", 1},  Known{"BOOL", 1}, Known{"F8_E4M3", 1}, Known{"F8_E5M2", 1},
  };
  for (const Known& k : kKnown) {
    if (k.name == dtype) return k.bytes;
  }
  return 0;
}

std::vector<TensorView> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    fail(file, "is " + std::to_string(bytes.size()) +
                   " bytes, expected at least the 8 bytes of a "
                   "header length");
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  if (length > rest || length > kMaxHeaderBytes) {
    fail(file, "header length is " + std::to_string(length) + ", expected at most " +
                   std::to_string(std::min(rest, kMaxHeaderBytes)) + "; is it truncated?");
  }
  const auto header_size = static_cast<std::size_t>(length);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              header_size);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_size);
  // Metadata is one level of strings, a tensor two levels: deeper nesting is not the format.
  const Result<json::Value> header = json::parse(text, 8);
  if (!header.ok()) fail(file, "the header is not valid JSON: " + header.error().message);
  if (!header->is(json::Kind::object)) fail(file, "the header is not a JSON object");

  std::vector<TensorView> tensors;
  for (const auto& [name, value] : header->members()) {
    if (name == "__metadata__") continue;
    tensors.push_back(read_entry(name, value, data, file));
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    // Empty tensors share their offset with the next one and go first.
    return a.data.data() != b.data.data() ? a.data.data() < b.data.data()
                                          : a.data.size() < b.data.size();
  });
  require_gapless(tensors, data, file);
  return tensors;
}

std::string safetensors_header(std::span<const TensorEntry> tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const TensorEntry& t : tensors) {
    json += ",\"" + t.name + "\":{\"dtype\":\"" + t.dtype +
            "\",\"shape\":" + format_shape(t.shape) + ",\"data_offsets\":[" + std::to_string(at) +
            ",";
    at += std::accumulate(t.shape.begin(), t.shape.end(),
                          static_cast<std::int64_t>(dtype_size(t.dtype)), std::multiplies<>());
    json += std::to_string(at) + "]}";
  }
  json += "}";
  json.append((kLengthBytes - json.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string out(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    out[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  }
  return out + json;
}

}  // namespace cairn::model
