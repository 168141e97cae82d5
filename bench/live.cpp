// SPDX-License-Identifier: Apache-2.0
// What is promised of a running engine, measured on one.
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/json_text.hpp"
#include "bench/arguments.hpp"
#include "bench/live/chat.hpp"
#include "bench/live/copies.hpp"
#include "bench/live/document.hpp"
#include "bench/live/solve.hpp"

using namespace cairn;
using namespace cairn::bench;

namespace {

constexpr const char* kUsage =
    "usage: bench_live chat|copies|solve|document|all --model DIR [--json] [--threads N]\n"
    "                  [--pairs N] [--compare-every N] [--nodes N]\n"
    "  chat      time to the first token of a chat that only grows, forest beside last\n"
    "  copies    a state copied out within a pass, and one copied in, beside plain copies\n"
    "  solve     steps of decoding by one thread with a solver at work beside them\n"
    "  document  tokens computed of questions on a document, answers bit for bit\n"
    "Look-ups among 100,000 places need no engine: bench_prefix times them.\n"
    "--pairs: of runs (solve, copies) or turns (chat) that are compared. --nodes: of the forest\n"
    "that is solved, 100,000 unless told. --compare-every: each how manyeth answer of 'document'\n"
    "is also computed without a cache. DIR: 'cairn model make --shape qwen3.5-0.8b DIR' makes one\n"
    "of a published shape. Exits 1 when a limit is missed.\n";

struct Arguments {
  std::string command, model;
  bool json = false;
  int threads = 0, pairs = 0, nodes = 0, compare_every = 1;  // 0: the defaults
};

int number(const std::string& name, const char* text) {
  return bench::whole_number(name, text, 0, 10'000);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  if (argc > 1) a.command = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      a.json = true;
      continue;
    }
    if (++i >= argc) throw LoadError("'" + name + "' wants a value");
    if (name == "--model") {
      a.model = argv[i];
    } else if (name == "--threads") {
      a.threads = number(name, argv[i]);
    } else if (name == "--pairs") {
      a.pairs = number(name, argv[i]);
    } else if (name == "--nodes") {
      a.nodes = number(name, argv[i]);
    } else if (name == "--compare-every") {
      a.compare_every = std::max(number(name, argv[i]), 1);
    } else {
      throw LoadError("unknown option '" + name + "'\n" + kUsage);
    }
  }
  if (a.model.empty()) throw LoadError(std::string("--model is missing\n") + kUsage);
  return a;
}

template <class Options>
Options options_of(const Arguments& a) {
  Options options;
  options.model = a.model;
  if constexpr (requires { options.threads; }) options.threads = a.threads;
  if constexpr (requires { options.nodes; }) {
    if (a.nodes > 0) options.nodes = a.nodes;
  }
  if constexpr (requires { options.pairs; }) {
    if (a.pairs > 0) options.pairs = a.pairs;
  }
  return options;
}

Findings chat(const Arguments& a) {
  auto options = options_of<ChatOptions>(a);
  if (a.pairs > 0) options.turns = std::max(a.pairs / options.chats, 1);
  return findings_of(measure_chat(options));
}

Findings copies(const Arguments& a) {
  return findings_of(measure_copies(options_of<CopiesOptions>(a)));
}

Findings solve(const Arguments& a) {
  return findings_of(measure_solve(options_of<SolveOptions>(a)));
}

Findings document(const Arguments& a) {
  auto options = options_of<DocumentOptions>(a);
  options.compare_every = a.compare_every;
  return findings_of(measure_document(options));
}

constexpr std::pair<const char*, Findings (*)(const Arguments&)> kMeasures[] = {
    {"chat", chat}, {"copies", copies}, {"solve", solve}, {"document", document}};

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

int run(const Arguments& a) {
  const double load_before = load_average();
  JsonWriter json;
  json.begin_object().key("measures").begin_object();
  int missed = 0;
  bool known = false;
  for (const auto& [name, measure] : kMeasures) {
    if (a.command != name && a.command != "all") continue;
    known = true;
    std::fprintf(stderr, "bench_live: %s\n", name);
    const Findings findings = measure(a);
    for (const Finding& f : findings) missed += f.missed() ? 1 : 0;
    json.key(name).raw(to_json(findings));
    if (!a.json) std::printf("%s\n", to_markdown(name, findings).c_str());
    std::fflush(stdout);
  }
  if (!known) throw LoadError("unknown measure '" + a.command + "'\n" + kUsage);
  const unsigned processors = std::thread::hardware_concurrency();
  json.end_object().key("processors").integer(processors);
  json.key("load_before").number(load_before).key("load_after").number(load_average());
  json.key("missed").integer(missed).end_object();
  if (a.json) {
    std::printf("%s\n", json.take().c_str());
  } else {
    std::printf("%u processors, load average %.2f before, %.2f after; %d missed\n", processors,
                load_before, load_average(), missed);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_live: %s\n", error.what());
    return 2;
  }
}
