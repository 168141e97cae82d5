// SPDX-License-Identifier: Apache-2.0
#include "http/url.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace cairn::http {

std::optional<Address> split_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  url = url.substr(0, url.find('#'));
  const std::size_t path = std::min(url.find('/'), url.size());
  std::string_view host = url.substr(0, path);
  Address out;
  out.target = path == url.size() ? "/" : std::string(url.substr(path));
  // The last colon, unless it stands inside the brackets of an IPv6 address.
  const std::size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  out.port = has_port ? std::string(host.substr(colon + 1)) : "80";
  if (has_port) host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  out.host = std::string(host);
  const auto printable = [](std::string_view s) {
    return s.find_first_of(std::string_view(" \t\r\n\0", 5)) == std::string_view::npos;
  };
  // The resolver would take a number above the last port modulo 65536.
  std::uint16_t port = 0;
  const char* const end = out.port.data() + out.port.size();
  const auto [stop, error] = std::from_chars(out.port.data(), end, port);
  const bool is_port = error == std::errc{} && stop == end;
  if (out.host.empty() || !is_port || !printable(url)) return std::nullopt;
  return out;
}

std::string host_header(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + address.port;
}

}  // namespace cairn::http
