// SPDX-License-Identifier: Apache-2.0
// The forward pass written down plainly in fp64, for comparison only: one token after the other,
// one loop per sum, no packing, no blocks. Reads the tensors by name itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/net/config.hpp"
#include "model/net/safetensors.hpp"

namespace cairn::testing {

class ReferenceModel {
 public:
  using Round = double (*)(double);
  struct Rounding {
    Round inputs = nullptr;  // what a matrix multiplies
    Round heads = nullptr;   // queries, keys and values
  };
  ReferenceModel(const model::ModelConfig& config, const model::Checkpoint& files,
                 const Rounding& rounding);
  ReferenceModel(const model::ModelConfig& config, const model::Checkpoint& files)
      : ReferenceModel(config, files, Rounding{}) {}

  /// Logits of every position, [tokens][vocab].
  std::vector<std::vector<double>> forward(const std::vector<std::int32_t>& tokens) const;

 private:
  using Vector = std::vector<double>;
  struct LayerMemory;

  const Vector& tensor(const std::string& name) const;
  Vector multiply(const std::string& name, const Vector& x) const;
  Vector norm(const Vector& x, const std::string& weight) const;
  Vector mix(int layer, const Vector& u, LayerMemory& memory) const;
  Vector attend(int layer, const Vector& u, LayerMemory& memory) const;
  void rotate(Vector& head, std::size_t position) const;
  Vector feed_forward(int layer, const Vector& u) const;

  model::ModelConfig config_;
  Rounding rounding_;
  std::map<std::string, Vector> tensors_;  // name after the text prefix
};

}  // namespace cairn::testing
