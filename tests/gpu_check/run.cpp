// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

#include "tests/gpu_check/parts.hpp"

namespace cairn::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

/// In the child: never returns.
[[noreturn]] void work(const Part& part, double seconds, const std::string& rows_path,
                       const Measured& measured) {
  Report report(rows_path, part.name);
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Context context{report, Clock::now() + limit, measured};
  int status = 0;
  try {
    part.run(context);
  } catch (const std::exception& error) {
    report.failed(part.name, error.what());
    status = 1;
  }
  std::fflush(stdout);
  _exit(status);  // no destructors: a lost device would make them fail
}

/// "" or why the part cannot begin.
std::string prepare(const Part& part) {
  if (!part.prepare) return "";
  try {
    part.prepare();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// "" or how it ended otherwise than by itself.
std::string wait_for(pid_t child, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status)) : "";
    }
    if (Clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "stopped after " + std::to_string(static_cast<int>(seconds)) + " s";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void run_part(const Part& part, double seconds, const std::string& rows_path,
              const Measured& measured) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("a process cannot be started");
  if (child == 0) work(part, seconds, rows_path, measured);
  // A part looks at its own deadline; this one is for those that cannot.
  const std::string ended = wait_for(child, seconds + 1);
  if (ended.empty()) return;
  Report report(rows_path, part.name);
  if (part.is_check || ended.rfind("stopped", 0) != 0) {
    report.failed(part.name, ended);
  } else {
    report.skipped(part.name, ended);
  }
}

}  // namespace

bool Context::has_time(double seconds, const std::string& what) const {
  if (seconds_left() >= seconds) return true;
  report.skipped(what, "no time left");
  return false;
}

std::vector<Row> run_parts(const std::vector<Part>& parts, double seconds,
                           const std::string& rows_path) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::remove(rows_path.c_str());
  std::vector<Row> rows;
  for (const Part& part : parts) {
    const auto left = [&] { return std::chrono::duration<double>(end - Clock::now()).count(); };
    Measured measured;
    for (const Row& row : rows) measured[row.name] = row.value;
    if (left() < part.least) {
      Report(rows_path, part.name).skipped(part.name, "no time left");
    } else if (const std::string why = prepare(part); !why.empty()) {
      Report(rows_path, part.name).failed(part.name, why);
    } else {
      run_part(part, std::min(left(), part.seconds), rows_path, measured);
    }
    const std::size_t before = rows.size();
    rows = read_rows(rows_path);
    std::printf("%s",
                table({rows.begin() + static_cast<std::ptrdiff_t>(before), rows.end()}).c_str());
    std::fflush(stdout);
    // Without a device nothing that follows can be known.
    const bool is_first = &part == &parts.front();
    if (is_first && !rows.empty() && rows.back().state == State::failed) break;
  }
  return rows;
}

}  // namespace cairn::gpu_check
