// SPDX-License-Identifier: Apache-2.0
#include "http/reply.hpp"

#include <charconv>
#include <ctime>

#include "engine/request/openai_objects.hpp"

namespace cairn::http {
namespace {

namespace openai = engine::openai;

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  const auto size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, size};
}

std::string head(int status, const Framing& framing) {
  std::string text = framing.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  text += std::to_string(status);
  text += ' ';
  text += reason(status);
  text += "\r\nServer: cairn\r\nDate: " + date() + "\r\n";
  if (!framing.keep_alive)
    text += "Connection: close\r\n";
  else if (framing.http_1_0)
    text += "Connection: keep-alive\r\n";
  if (!framing.cors_origin.empty()) {
    text += "Access-Control-Allow-Origin: " + framing.cors_origin + "\r\n";
    if (framing.cors_origin != "*") text += "Vary: Origin\r\n";
  }
  return text;
}

void add_retry_after(Reply& reply) {
  if (reply.status == 429) reply.headers.emplace_back("Retry-After", "1");
  if (reply.status == 503) reply.headers.emplace_back("Retry-After", "5");
}

}  // namespace

Reply json_reply(std::string body) {
  Reply reply;
  reply.body = std::move(body);
  return reply;
}

Reply error_reply(const Error& error) {
  Reply reply = json_reply(openai::error_body(error));
  reply.status = openai::shape_of(error).status;
  add_retry_after(reply);
  return reply;
}

Reply error_reply(int status, std::string_view message, std::string_view code) {
  const std::string_view type = status < 500 ? "invalid_request_error" : "server_error";
  Reply reply = json_reply(openai::error_body(message, type, "", code));
  reply.status = status;
  add_retry_after(reply);
  return reply;
}

Reply missing_key(std::string_view which) {
  Reply reply = error_reply(
      401, "A valid " + std::string(which) + " key is needed: Authorization: Bearer KEY.",
      "invalid_api_key");
  reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

Reply internal_error() {
  return error_reply(500, "The server failed at this request; its log says more.",
                     "internal_error");
}

std::string to_text(const Reply& reply, const Framing& framing) {
  std::string text = head(reply.status, framing);
  for (const auto& [name, value] : reply.headers) text += name + ": " + value + "\r\n";
  if (reply.status != 204) {
    text += "Content-Type: " + reply.type + "\r\n";
    text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  }
  text += "\r\n";
  if (!framing.head) text += reply.body;
  return text;
}

std::string stream_head(const Framing& framing) {
  std::string text = head(200, framing);
  text += "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n";
  text += "X-Accel-Buffering: no\r\n";  // asks proxies not to hold events back
  if (!framing.http_1_0) text += "Transfer-Encoding: chunked\r\n";
  return text + "\r\n";
}

std::string stream_part(const std::vector<std::string>& events, bool last, const Framing& framing) {
  std::string data;
  for (const auto& event : events) data += "data: " + event + "\n\n";
  if (last) data += "data: [DONE]\n\n";
  if (framing.http_1_0 || data.empty()) return data;
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  return std::string(size, end) + "\r\n" + data + "\r\n" + (last ? "0\r\n\r\n" : "");
}

}  // namespace cairn::http
