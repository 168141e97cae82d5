// SPDX-License-Identifier: Apache-2.0
// Questions on a document compute what the simulator says and answer as if alone.
#include "actors/testing.hpp"
#include "bench/live/document.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::bench;

TEST_CASE("questions on a document compute what the simulator says, and answer as if alone") {
  DocumentOptions options;
  options.model = "demo";
  options.threads = 1;
  options.cache_bytes = 256 << 20;
  const DocumentResult r = measure_document(options);
  CHECK(static_cast<double>(r.computed) <= 1.05 * static_cast<double>(r.predicted));
  CHECK(r.prompt_tokens > 20'000);
  CHECK(r.computed < 8000);
  CHECK(r.predicted > 2000);
  CHECK(r.most_at_once >= options.question);
  CHECK(r.most_at_once <= 70);
  CHECK(r.compared == 20);
  CHECK(r.different == 0);
}

namespace {

DocumentOptions short_document() {
  DocumentOptions options;
  options.model = "demo";
  options.threads = 1;
  options.cache_bytes = 64 << 20;
  options.document = 120;
  options.question = 10;
  options.prompts = 3;
  return options;
}

}  // namespace

TEST_CASE("only every so manyeth answer is compared where that is asked") {
  DocumentOptions options = short_document();
  options.compare_every = 4;
  CHECK(measure_document(options).compared == 3);  // of 10
}

TEST_CASE("a restored state that is one bit off shows in the answers and is missed") {
  DocumentOptions options = short_document();
  options.activations = "fp32";  // rounding may hide so small a change from the answers
  cairn::actors::wrap_backends(cairn::actors::add_one_ulp_to_restored_states);
  const DocumentResult r = measure_document(options);
  cairn::actors::wrap_backends({});
  CHECK(r.different > 0);
  CHECK(r.different < r.compared);  // the first found nothing to restore
  CHECK(findings_of(r).back().missed());
}
