// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/net/safetensors.hpp"

namespace cairn::testing {

inline std::span<const std::byte> as_bytes(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

/// A safetensors file taken apart, for tests that change something and put it together again.
struct TensorFile {
  struct Entry {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::string data;
  };
  std::vector<Entry> entries;

  static TensorFile parse(const std::string& bytes) {
    TensorFile out;
    for (const model::TensorView& t : model::parse_safetensors(as_bytes(bytes), "source")) {
      out.entries.push_back(
          {t.name, t.dtype, t.shape,
           std::string(reinterpret_cast<const char*>(t.data.data()), t.data.size())});
    }
    return out;
  }

  Entry& at(const std::string& name) {
    for (Entry& e : entries) {
      if (e.name == name) return e;
    }
    throw std::runtime_error("no tensor " + name);
  }

  void remove(const std::string& name) {
    std::erase_if(entries, [&](const Entry& e) { return e.name == name; });
  }

  std::string serialize() const {
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
    std::string data;
    for (const Entry& e : entries) {
      header += ",\"" + e.name + "\":{\"dtype\":\"" + e.dtype +
                "\",\"shape\":" + model::format_shape(e.shape) + ",\"data_offsets\":[" +
                std::to_string(data.size()) + "," + std::to_string(data.size() + e.data.size()) +
                "]}";
      data += e.data;
    }
    return with_header(header + "}", data);
  }

  static std::string with_header(const std::string& header, const std::string& data) {
    std::string out(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(out.data(), &length, sizeof length);
    return out + header + data;
  }
};

}  // namespace cairn::testing
