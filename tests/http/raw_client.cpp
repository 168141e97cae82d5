// SPDX-License-Identifier: Apache-2.0
#include "tests/http/raw_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tests/support/catch.hpp"

namespace cairn::testing {

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes) {
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer_bytes > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof receive_buffer_bytes);
  const timeval timeout{5, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

RawClient::~RawClient() { close(); }

void RawClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void RawClient::reset() {
  const linger now{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void RawClient::close_sending() { ::shutdown(socket_, SHUT_WR); }

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::fill() {
  char buffer[65536];
  const auto size = ::recv(socket_, buffer, sizeof buffer, 0);
  if (size <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(size));
  return true;
}

bool RawClient::wait_for(std::string_view text) {
  while (received_.find(text) == std::string::npos)
    if (!fill()) return false;
  return true;
}

bool RawClient::closed_by_server() {
  char buffer[65536];
  for (;;) {
    const auto size = ::recv(socket_, buffer, sizeof buffer, 0);
    if (size == 0) return true;
    if (size < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
  }
}

RawResponse RawClient::read(bool no_body) {
  RawResponse response;
  if (!wait_for("\r\n\r\n")) return response;
  const auto head_end = received_.find("\r\n\r\n") + 4;
  std::istringstream head(received_.substr(0, head_end));
  received_.erase(0, head_end);
  std::string line;
  std::getline(head, line);
  if (line.rfind("HTTP/1.", 0) != 0) return response;
  response.status = std::stoi(line.substr(9, 3));
  while (std::getline(head, line) && line != "\r") {
    const auto colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return std::tolower(c); });
    response.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
  }
  if (no_body || response.status == 204 || response.status == 100) return response;
  if (response.headers.count("content-length")) {
    const auto size = std::stoul(response.headers["content-length"]);
    while (received_.size() < size && fill()) {
    }
    response.body = received_.substr(0, size);
    received_.erase(0, size);
  } else if (response.headers.count("transfer-encoding")) {
    for (;;) {
      if (!wait_for("\r\n")) return response;
      const auto size = std::stoul(received_, nullptr, 16);
      received_.erase(0, received_.find("\r\n") + 2);
      while (received_.size() < size + 2 && fill()) {
      }
      response.body += received_.substr(0, size);
      received_.erase(0, size + 2);
      if (size == 0) break;
    }
  } else {
    while (fill()) {
    }
    response.body = std::exchange(received_, {});
  }
  return response;
}

std::vector<std::string> RawResponse::events() const {
  std::vector<std::string> events;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    CHECK(line.rfind("data: ", 0) == 0);
    events.push_back(line.substr(6));
  }
  return events;
}

json::Value RawResponse::json() const {
  auto value = json::parse(body);
  INFO(status << " " << body);
  REQUIRE(value.ok());
  return value.take();
}

std::string post(std::string_view path, std::string_view body, std::string_view headers) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string get(std::string_view path, std::string_view headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n";
}

const json::Value& at(const json::Value& root, const std::string& path) {
  const json::Value* value = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    const auto name = path.substr(begin, end - begin);
    INFO(path);
    if (value->is(json::Kind::array)) {
      REQUIRE(std::stoul(name) < value->items().size());
      value = &value->items()[std::stoul(name)];
    } else {
      value = value->find(name);
      REQUIRE(value);
    }
    begin = end + 1;
  }
  return *value;
}

}  // namespace cairn::testing
