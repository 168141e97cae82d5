// SPDX-License-Identifier: Apache-2.0
// The published comparison of state placements, by one command.
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <string>

#include "base/check.hpp"
#include "bench/arguments.hpp"
#include "bench/paper/importers.hpp"
#include "bench/paper/tables.hpp"
#include "bench/paper/wallclock.hpp"

using namespace cairn;
using namespace cairn::paper;

namespace {

constexpr const char* kUsage =
    "usage: bench_paper tables [--traces bench/traces] [--markdown FILE] [--svg PREFIX]\n"
    "                          [--quality FILE.jsonl] [--narrativeqa FOLDER]\n"
    "                          [--system-prompts FOLDER --queries FILE]\n"
    "       bench_paper wallclock --model DIR [--seconds 340] [--threads 0] [--markdown FILE]\n"
    "                          [--svg PREFIX]\n"
    "FOLDER of NarrativeQA holds summaries.csv and qaps.csv; a model directory of a published "
    "shape\n"
    "is made by 'cairn model make --shape qwen3.5-0.8b DIR'.\n";

using Options = std::map<std::string, std::string>;

// "" for an option that was not given.
std::string get(const Options& options, const std::string& name,
                const std::string& otherwise = "") {
  const auto at = options.find(name);
  return at == options.end() ? otherwise : at->second;
}

Options parse(int argc, char** argv, const std::string& known) {
  Options out;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (known.find(name + " ") == std::string::npos) {
      throw LoadError("unknown option '" + name + "'\n" + kUsage);
    }
    out[name] = argv[i + 1];
  }
  if (argc % 2 == 1) throw LoadError("'" + std::string(argv[argc - 1]) + "' wants a value");
  return out;
}

void write(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw LoadError(path + ": cannot be written");
}

void publish(const Options& options, const std::string& markdown) {
  const std::string path = get(options, "--markdown");
  if (path.empty()) {
    std::fputs(markdown.c_str(), stdout);
  } else {
    write(path, markdown);
  }
}

std::vector<Workload> workloads(const Options& options) {
  constexpr std::uint64_t kSeed = 1;
  const std::string traces = get(options, "--traces", "bench/traces") + "/";
  std::vector<Workload> out;
  out.push_back(from_trace("Documents with questions (XQuAD)", traces + "xquad_en_live20.csv.gz"));
  out.push_back(generate_documents(kSeed));
  out.push_back(generate_queries(read_prompt_lengths(traces + "system_prompt_lengths.csv"), kSeed));
  out.push_back(from_trace("One few-shot prompt (GSM8K)", traces + "gsm8k8shot.csv.gz"));
  out.push_back(
      from_trace("Few-shot prompts of 27 tasks (BBH)", traces + "bbh3shot_live20.csv.gz"));
  out.push_back(generate_wide(kSeed));
  if (const auto file = get(options, "--quality"); !file.empty()) {
    out.push_back(from_documents("QuALITY", import_quality(file), kSeed));
  }
  if (const auto folder = get(options, "--narrativeqa"); !folder.empty()) {
    const auto documents = import_narrativeqa(folder + "/summaries.csv", folder + "/qaps.csv");
    out.push_back(from_documents("NarrativeQA", documents, kSeed));
  }
  if (const auto folder = get(options, "--system-prompts"); !folder.empty()) {
    const auto documents = import_system_prompts(folder, get(options, "--queries"));
    out.push_back(from_documents("System prompts with queries", documents, kSeed));
  }
  return out;
}

int tables(const Options& options) {
  std::string markdown = preface();
  const std::string prefix = get(options, "--svg");
  int number = 0;
  for (const Workload& workload : workloads(options)) {
    std::fprintf(stderr, "%s\n", workload.name.c_str());
    const Comparison comparison = compare(workload);
    markdown += to_markdown(comparison);
    if (prefix.empty()) continue;
    const std::string drawing = prefix + std::to_string(++number) + ".svg";
    write(drawing, to_svg(comparison));
    markdown += "![" + comparison.name + "](" + drawing.substr(drawing.rfind('/') + 1) + ")\n\n";
  }
  markdown.pop_back();
  publish(options, markdown);
  return 0;
}

int wallclock(const Options& given) {
  WallclockOptions options;
  options.model = get(given, "--model");
  if (options.model.empty()) throw LoadError("--model is missing");
  options.seconds = bench::whole_number("--seconds", get(given, "--seconds", "340"), 1, 86'400);
  options.threads = bench::whole_number("--threads", get(given, "--threads", "0"), 0, 1024);
  const Wallclock result = measure_wallclock(options);
  publish(given, to_markdown(result));
  const std::string prefix = get(given, "--svg");
  if (!prefix.empty()) write(prefix + "wallclock.svg", to_svg(result));
  constexpr std::size_t kLeastPoints = 30;
  const double ratio = result.fit.slope * result.prefill_rate;
  const bool met =
      result.points.size() >= kLeastPoints && result.fit.r2 >= 0.98 && ratio >= 0.9 && ratio <= 1.1;
  if (!met) {
    std::fprintf(stderr,
                 "MISSED: %zu points (at least %zu), R^2 %.4f (at least 0.98), slope x prefill "
                 "rate %.3f (0.9 to 1.1)\n",
                 result.points.size(), kLeastPoints, result.fit.r2, ratio);
  }
  return met ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "tables") {
      return tables(parse(argc, argv,
                          "--traces --markdown --svg --quality --narrativeqa --system-prompts "
                          "--queries "));
    }
    if (command == "wallclock") {
      return wallclock(parse(argc, argv, "--model --seconds --threads --markdown --svg "));
    }
    std::fputs(kUsage, stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_paper: %s\n", error.what());
    return 1;
  }
}
