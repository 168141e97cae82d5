// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <memory>
#include <mutex>

namespace cairn {
namespace {

struct SinkHolder {
  std::mutex mutex;
  std::shared_ptr<LogSink> sink;
};

SinkHolder& holder() {
  static SinkHolder instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink sink) {
  auto next = std::make_shared<LogSink>(std::move(sink));
  std::lock_guard lock(holder().mutex);
  holder().sink = std::move(next);
}

void log(LogLevel level, std::string_view message) {
  std::shared_ptr<LogSink> sink;
  {
    std::lock_guard lock(holder().mutex);
    sink = holder().sink;
  }
  if (sink && *sink) (*sink)(level, message);
}

}  // namespace cairn
