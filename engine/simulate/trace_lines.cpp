// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/trace_lines.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.hpp"

namespace cairn::engine {
namespace {

constexpr std::size_t kBuffer = 1 << 18;
constexpr std::size_t kMaxLine = 1 << 28;  // 16 M token ids with their commas

}  // namespace

struct TraceLines::File {
  gzFile handle = nullptr;
  std::vector<char> buffer = std::vector<char>(kBuffer);
  std::size_t at = 0, end = 0;  // what of the buffer has not been handed out
  ~File() {
    if (handle) gzclose(handle);
  }
};

TraceLines::TraceLines(const std::string& path) : file_(std::make_unique<File>()), path_(path) {
  errno = 0;
  file_->handle = gzopen(path.c_str(), "rb");  // reads plain files as they are
  if (!file_->handle) throw LoadError(path + ": cannot be opened: " + std::strerror(errno));
}

TraceLines::~TraceLines() = default;

// zlib says of a file that ends within its stream only that there was nothing more to read.
void TraceLines::check_end() {
  int code = Z_OK;
  const char* text = gzerror(file_->handle, &code);
  if (code == Z_OK || code == Z_STREAM_END) return;
  const std::string where = path_ + ":" + std::to_string(line_ + 1) + ": ";
  if (code == Z_BUF_ERROR) throw LoadError(where + "the gzip stream is truncated");
  if (code == Z_ERRNO) throw LoadError(where + "cannot be read: " + std::strerror(errno));
  throw LoadError(where + "the gzip stream is damaged (" + text + ")");
}

bool TraceLines::fill() {
  file_->at = 0;
  const int n = gzread(file_->handle, file_->buffer.data(), static_cast<unsigned>(kBuffer));
  file_->end = static_cast<std::size_t>(std::max(n, 0));
  if (n <= 0) check_end();
  return n > 0;
}

bool TraceLines::read_line(std::string& line) {
  line.clear();
  bool any = false;
  while (file_->at < file_->end || fill()) {
    any = true;
    const char* begin = file_->buffer.data() + file_->at;
    const char* end = file_->buffer.data() + file_->end;
    const char* stop = std::find(begin, end, '\n');
    line.append(begin, stop);
    file_->at += static_cast<std::size_t>(stop - begin);
    if (line.size() > kMaxLine) {
      ++line_;
      fail("lines of at most " + std::to_string(kMaxLine) + " bytes");
    }
    if (stop == end) continue;
    ++file_->at;
    break;
  }
  if (!any) return false;
  ++line_;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

bool TraceLines::next(std::string& line) {
  while (read_line(line)) {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (line_ == 1 && line.starts_with(kMark)) line.erase(0, kMark.size());
    if (line.find_first_not_of(" \t") != std::string::npos) return true;
  }
  return false;
}

void TraceLines::fail(std::string_view field, const std::string& expected) const {
  throw LoadError(path_ + ":" + std::to_string(line_) + ": field '" + std::string(field) +
                  "': expected " + expected);
}

void TraceLines::fail(const std::string& expected) const {
  throw LoadError(path_ + ":" + std::to_string(line_) + ": expected " + expected);
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kShown ? "...'" : "'");
}

}  // namespace cairn::engine
