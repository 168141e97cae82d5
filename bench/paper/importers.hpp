// SPDX-License-Identifier: Apache-2.0
// Texts in the forms in which their authors publish them. Every function throws LoadError naming
// the file, the place and what was expected.
#pragma once

#include <string>
#include <vector>

#include "bench/paper/workload.hpp"

namespace cairn::paper {

/// QuALITY: a JSON object a line with "article" and "questions", of which each has "question" and
/// "options". Lines with the same article are one document.
std::vector<Document> import_quality(const std::string& jsonl);

/// NarrativeQA: summaries.csv (document_id, summary) and qaps.csv (document_id, question).
std::vector<Document> import_narrativeqa(const std::string& summaries_csv,
                                         const std::string& qaps_csv);

/// Every .md and .txt file below a folder, in order of path, each asked every line of `queries`.
std::vector<Document> import_system_prompts(const std::string& folder, const std::string& queries);

}  // namespace cairn::paper
