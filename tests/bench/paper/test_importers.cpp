// SPDX-License-Identifier: Apache-2.0
// Each published form, from a file written by hand.
#include <filesystem>

#include "base/check.hpp"
#include "bench/paper/csv.hpp"
#include "bench/paper/importers.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::paper;
using cairn::testing::TempDir;

TEST_CASE("QuALITY's lines become documents, of equal articles one, options with their letters") {
  TempDir dir;
  dir.write(
      "q.jsonl",
      "{\"article_id\": \"1\", \"article\": \"Once\", \"questions\": [{\"question\": \"Who?\", "
      "\"options\": [\"he\", \"she\"], \"gold_label\": 1}]}\n\n"
      "{\"article_id\": \"2\", \"article\": \"Twice\", \"questions\": []}\n"
      "{\"article_id\": \"1\", \"article\": \"Once\", \"questions\": [{\"question\": \"Why?\", "
      "\"options\": []}]}\n");
  const auto documents = import_quality(dir.file("q.jsonl"));
  REQUIRE(documents.size() == 2);
  CHECK(documents[0].text == "Once");
  CHECK(documents[0].questions == std::vector<std::string>{"Who?\nA. he\nB. she", "Why?"});
  CHECK(documents[1].questions.empty());
}

TEST_CASE("NarrativeQA's summaries and questions are joined by document") {
  TempDir dir;
  dir.write("summaries.csv",
            "document_id,set,summary,summary_tokenized\n"
            "a1,train,\"He said \"\"no\"\",\nand left.\",x\nb2,test,Short.,y\n");
  dir.write("qaps.csv",
            "document_id,set,question,answer1\nb2,test,\"How, then?\",so\na1,train,Who?,he\n"
            "b2,test,When?,now\n");
  const auto documents = import_narrativeqa(dir.file("summaries.csv"), dir.file("qaps.csv"));
  REQUIRE(documents.size() == 2);
  CHECK(documents[0].text == "He said \"no\",\nand left.");
  CHECK(documents[0].questions == std::vector<std::string>{"Who?"});
  CHECK(documents[1].questions == std::vector<std::string>{"How, then?", "When?"});
}

TEST_CASE("A folder's prompts are each asked every query") {
  TempDir dir;
  std::filesystem::create_directories(dir.file("patterns/a"));
  dir.write("patterns/a/system.md", "You sum up.");
  dir.write("patterns/b.txt", "You rhyme.");
  dir.write("patterns/image.png", "no text");
  dir.write("queries.txt", "First?\r\n\nSecond?\n");
  const auto documents = import_system_prompts(dir.file("patterns"), dir.file("queries.txt"));
  REQUIRE(documents.size() == 2);
  CHECK(documents[0].text == "You sum up.");
  CHECK(documents[1].text == "You rhyme.");
  CHECK(documents[1].questions == std::vector<std::string>{"First?", "Second?"});
}

TEST_CASE("Imported texts share what their texts share, counted in four bytes a token") {
  const std::vector<Document> documents = {
      {std::string(400, 'x'), {"abcdefgh1", "abcdefgh2", "z"}}};
  const Workload workload = from_documents("w", documents, 1);
  REQUIRE(workload.requests.size() == 3);
  CHECK(workload.requests[0].parent == -1);
  for (std::size_t i = 1; i < 3; ++i) {
    CHECK(workload.requests[i].parent >= 0);
    // 402 bytes are shared, and the question's first eight where it is alike.
    CHECK((workload.requests[i].overlap == 100 || workload.requests[i].overlap == 102));
  }
  CHECK(engine::chain_trace(workload.requests)->size() == 3);
}

TEST_CASE("Files of another form are refused with the place and what was expected") {
  TempDir dir;
  const auto says = [](const std::function<void()>& what, const std::string& message) {
    CHECK_THROWS_WITH(what(), Catch::Contains(message));
  };
  dir.write("bad.jsonl", "{\"article\": 1}\n");
  says([&] { import_quality(dir.file("bad.jsonl")); },
       "bad.jsonl:1: field 'article': expected a string");
  dir.write("bad2.jsonl", "{\"article\": \"x\", \"questions\": [{\"question\": \"q\"}]}\n");
  says([&] { import_quality(dir.file("bad2.jsonl")); }, "field 'options': expected an array");
  dir.write("bad3.jsonl", "{\"article\":\n");
  says([&] { import_quality(dir.file("bad3.jsonl")); }, "bad3.jsonl:1: expected a JSON object");
  says([&] { import_quality(dir.file("none")); }, "none: cannot be read");
  dir.write("s.csv", "document_id,summary\na,text\n");
  dir.write("q.csv", "document_id,question\nb,why\n");
  says([&] { import_narrativeqa(dir.file("s.csv"), dir.file("q.csv")); },
       "q.csv: row 1: field 'document_id': expected one that");
  says([&] { import_narrativeqa(dir.file("q.csv"), dir.file("q.csv")); },
       "expected a column 'summary'");
  dir.write("short.csv", "document_id,summary\na\n");
  says([&] { read_csv(dir.file("short.csv"), {"summary"}); }, "row 1: field 'summary' is missing");
  says([&] { import_system_prompts(dir.file("nowhere"), dir.file("s.csv")); }, "nowhere");
  says([&] { import_system_prompts(dir.path(), dir.file("s.csv")); }, "expected .md or .txt files");
  dir.write("lengths.csv", "prompt,approx_tokens\n0,0\n");
  says([&] { read_prompt_lengths(dir.file("lengths.csv")); }, "row 1: field 'approx_tokens'");
}
