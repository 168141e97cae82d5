// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::http {

/// Where a request goes: `target` is the path with its query.
struct Address {
  std::string host, port, target;
};

/// Of "http://host[:port][/path]"; nothing for what is none, https and ports above 65535 included.
std::optional<Address> split_url(std::string_view url);

/// What a Host header says of it: "host:port", an IPv6 address in brackets.
std::string host_header(const Address& address);

}  // namespace cairn::http
