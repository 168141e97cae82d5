// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_choices.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "kernels/cuda/gemm.hpp"

namespace cairn::kernels::cuda {
namespace {

constexpr std::int64_t kSmallest = gemm_bucket(1);
constexpr int kPlacements = 3;  // of the known rows in each bucket
constexpr const char* kTitle = "cublaslt record 1";

/// splitmix64
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

/// Values in [-1, 1).
std::vector<Bf16> random_rows(std::int64_t rows, std::int64_t k, Random& random) {
  std::vector<Bf16> x(static_cast<std::size_t>(rows * k));
  for (std::size_t i = 0; i < x.size(); i += 4) {
    std::uint64_t bits = random.next();
    for (std::size_t j = i; j < std::min(i + 4, x.size()); ++j, bits >>= 16) {
      x[j] = to_bf16(static_cast<float>(bits & 0xffff) * 0x1p-15F - 1.0F);
    }
  }
  return x;
}

/// A place for each known row: one in each sixteenth of the bucket, at any distance from its start.
std::vector<std::int64_t> placement(std::int64_t bucket, int number, Random& random) {
  std::vector<std::int64_t> places;
  const std::int64_t share = bucket / kSmallest;
  for (std::int64_t row = 0; row < kSmallest; ++row) {
    places.push_back((7 * row + 3 + 5 * number) % kSmallest * share + random.below(share));
  }
  return places;
}

/// Whether known rows keep their bits among `bucket` rows.
bool invariant(const LtShape& shape, const LtAlgorithm& algorithm, std::int64_t bucket,
               LtTrials& trials) {
  Random random(static_cast<std::uint64_t>(shape.n * 1000003 + shape.k));
  const std::vector<Bf16> known = random_rows(kSmallest, shape.k, random);
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < kSmallest; ++row) places.push_back(row);
  const auto want = trials.multiply(shape, algorithm, known, places);
  if (!want) return false;
  std::vector<Bf16> x = random_rows(bucket, shape.k, random);
  for (int number = 0; number < kPlacements; ++number) {
    places = placement(bucket, number, random);
    for (std::int64_t row = 0; row < kSmallest; ++row) {
      std::copy_n(known.begin() + row * shape.k, shape.k,
                  x.begin() + places[static_cast<std::size_t>(row)] * shape.k);
    }
    const auto got = trials.multiply(shape, algorithm, x, places);
    if (!got || *got != *want) return false;
  }
  return true;
}

std::string describe(const LtShape& shape) {
  return std::to_string(shape.n) + " x " + std::to_string(shape.k) +
         (shape.bf16_out ? " to bf16" : " to fp32");
}

std::string digest_of(const std::string& body) {
  std::string digits;
  for (const char byte : sha256(body)) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    digits += two;
  }
  return digits;
}

std::string last_line(const std::string& body) { return "sha256 " + digest_of(body) + "\n"; }

}  // namespace

LtChoices::LtChoices(LtIdentity identity, std::string file)
    : identity_(std::move(identity)), file_(std::move(file)) {
  read();
}

std::optional<LtAlgorithm> LtChoices::prepare(const LtShape& shape, std::int64_t max_rows,
                                              LtTrials& trials) {
  const auto [at, is_new] = choices_.try_emplace(shape);
  Choice& choice = at->second;
  choice.prepared = true;
  if (is_new) {
    choice.algorithm = trials.choose(shape);
    if (choice.algorithm) {
      write();
    } else {
      reject(shape, choice, 0);
    }
  }
  const std::int64_t last = gemm_bucket(max_rows);
  while (choice.algorithm && choice.tested_rows < last) {
    const std::int64_t bucket = gemm_bucket(choice.tested_rows + 1);
    if (invariant(shape, *choice.algorithm, bucket, trials)) {
      choice.tested_rows = bucket;
    } else {
      reject(shape, choice, bucket);
    }
  }
  return choice.algorithm;
}

int LtChoices::rejected() const {
  return static_cast<int>(std::count_if(choices_.begin(), choices_.end(), [](const auto& entry) {
    return !entry.second.algorithm.has_value();
  }));
}

void LtChoices::reject(const LtShape& shape, Choice& choice, std::int64_t bucket) {
  choice.algorithm.reset();
  choice.failed_bucket = bucket;
  log(LogLevel::warning,
      "cublaslt: weights of " + describe(shape) + " are left to cairn's own kernel: " +
          (bucket == 0 ? "the library offers no algorithm"
                       : "a row's bits change among " + std::to_string(bucket) + " rows"));
  write();
}

std::string LtChoices::title() const {
  return std::string(kTitle) + "\ndevice " + identity_.device + "\nlibrary " +
         std::to_string(identity_.library) + "\n";
}

std::string LtChoices::digest() const {
  constexpr std::size_t kDigits = 16;
  std::string body = title();
  for (const auto& [shape, choice] : choices_) {
    if (!choice.prepared) continue;
    body += describe(shape);
    if (choice.algorithm) {
      for (const std::uint64_t word : choice.algorithm->words) body += " " + hex_digits(word);
    }
    body += "\n";
  }
  return digest_of(body).substr(0, kDigits);
}

std::string LtChoices::text() const {
  std::string body = title();
  for (const auto& [shape, choice] : choices_) {
    body += "weight " + std::to_string(shape.n) + " " + std::to_string(shape.k) +
            (shape.bf16_out ? " bf16" : " fp32");
    if (choice.algorithm) {
      body += " algorithm";
      for (const std::uint64_t word : choice.algorithm->words) body += " " + hex_digits(word);
    } else {
      body += " failed " + std::to_string(choice.failed_bucket);
    }
    body += "\n";
  }
  return body + last_line(body);
}

/// False when the text is damaged; true, and nothing taken, when it belongs to others.
bool LtChoices::parse(const std::string& text) {
  const std::size_t end = text.rfind("sha256 ");
  if (end == std::string::npos || text.substr(end) != last_line(text.substr(0, end))) return false;
  std::istringstream lines(text.substr(0, end));
  std::string title, device, library, word;
  std::getline(lines, title);
  std::getline(lines, device);
  std::getline(lines, library);
  if (title != kTitle || device != "device " + identity_.device ||
      library != "library " + std::to_string(identity_.library)) {
    return true;
  }
  while (lines >> word) {
    LtShape shape;
    Choice choice;
    std::string out, what;
    lines >> shape.n >> shape.k >> out >> what;
    shape.bf16_out = out == "bf16";
    if (what == "algorithm") {
      lines >> std::hex;
      for (std::uint64_t& bits : choice.algorithm.emplace().words) lines >> bits;
      lines >> std::dec;
    } else {
      lines >> choice.failed_bucket;
    }
    if (!lines) return false;
    choices_.emplace(shape, choice);
  }
  return true;
}

void LtChoices::read() {
  if (file_.empty()) return;
  std::ifstream in(file_, std::ios::binary);
  if (!in) return;
  std::ostringstream text;
  text << in.rdbuf();
  if (parse(text.str())) return;
  choices_.clear();
  log(LogLevel::warning, "cublaslt: " + file_ + " is damaged; its algorithms are chosen anew");
}

void LtChoices::write() const {
  if (file_.empty()) return;
  const std::string temporary = file_ + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << text();
  out.close();
  if (!out || std::rename(temporary.c_str(), file_.c_str()) != 0) {
    log(LogLevel::warning, "cublaslt: " + file_ + " cannot be written: " + std::strerror(errno));
    std::remove(temporary.c_str());
  }
}

}  // namespace cairn::kernels::cuda
