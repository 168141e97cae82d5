// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/embedding.cuh"

#include "base/check.hpp"

namespace cairn::kernels::cuda {

Grid embedding_grid(const EmbeddingArgs& args) { return {args.rows}; }

void embedding(Stream stream, const EmbeddingArgs& args) {
  check(args.width % 4 == 0, "embedding: the width is a multiple of 4");
  launch<Embedding>(embedding_grid(args), stream, args);
}

}  // namespace cairn::kernels::cuda
