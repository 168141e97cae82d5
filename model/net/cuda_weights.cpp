// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_weights.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace cairn::model {
namespace {

using kernels::kPanelColumns;
using kernels::PackedMatrix;
namespace cuda = kernels::cuda;

enum class Form : std::uint8_t { bf16, int8 };

// `halves`: gate and up, whose columns the kernel takes in pairs.
Form form_of(const PackedMatrix& m, CudaWeights type, bool halves) {
  const bool fits = m.k() % 16 == 0 && m.n() % (halves ? 16 : 8) == 0;
  return type == CudaWeights::int8 && fits ? Form::int8 : Form::bf16;
}

std::size_t value_bytes(const PackedMatrix& m, Form form) {
  return static_cast<std::size_t>(m.n() * m.k()) * (form == Form::int8 ? 1 : sizeof(Bf16));
}

std::int64_t scale_count(const PackedMatrix& m) {
  return cuda::ceil_div(m.k(), kInt8Group) * m.n();
}

// Calls vector(values, place) and matrix(values, place, form) for every tensor, in the order of
// memory.
template <class Vector, class Matrix>
void for_tensors(const Weights& from, DeviceWeights& to, CudaWeights type, const Vector& vector,
                 const Matrix& matrix) {
  to.layers.resize(from.layers.size());
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& layer = from.layers[i];
    DeviceLayer& place = to.layers[i];
    place.kind = layer.kind;
    vector(layer.input_norm, place.input_norm);
    vector(layer.post_norm, place.post_norm);
    vector(layer.query_norm, place.query_norm);
    vector(layer.key_norm, place.key_norm);
    vector(layer.conv, place.conv);
    vector(layer.a_log, place.a_log);
    vector(layer.dt_bias, place.dt_bias);
    vector(layer.mix_norm, place.mix_norm);
    matrix(layer.in, place.in, form_of(layer.in, type, false));
    matrix(layer.out, place.out, form_of(layer.out, type, false));
    matrix(layer.gate_up, place.gate_up, form_of(layer.gate_up, type, true));
    matrix(layer.down, place.down, form_of(layer.down, type, false));
  }
  vector(from.final_norm, to.final_norm);
  matrix(from.head, to.head, Form::bf16);
  if (from.config.tie_word_embeddings) {
    to.embedding = to.head.bf16.w;
  } else {
    DeviceMatrix table;
    matrix(from.embedding, table, Form::bf16);
    to.embedding = table.bf16.w;
  }
}

// Rows [64 panel, ...) as a file has them.
void unpack_panel(const PackedMatrix& m, std::int64_t panel, Bf16* rows) {
  constexpr std::int64_t kStep = 64;  // 8 KiB of a panel stay in the first-level cache
  const Bf16* const from = m.panel(panel);
  const std::int64_t count = std::min(kPanelColumns, m.n() - panel * kPanelColumns);
  for (std::int64_t begin = 0; begin < m.k(); begin += kStep) {
    const std::int64_t end = std::min(begin + kStep, m.k());
    for (std::int64_t c = 0; c < count; ++c) {
      for (std::int64_t i = begin; i < end; ++i) {
        rows[c * m.k() + i] = from[PackedMatrix::place(i, c)];
      }
    }
  }
}

class Filler {
 public:
  Filler(std::byte* memory, Upload& upload) : next_(memory), upload_(upload) {}

  void vector(const std::vector<float>& values, const float*& place) {
    std::byte* const to = take(values.size() * sizeof(float));
    upload_.send_bytes(to, values.data(), values.size() * sizeof(float));
    place = reinterpret_cast<const float*>(to);
  }

  void matrix(const PackedMatrix& m, DeviceMatrix& place, Form form) {
    place.n = m.n();
    place.k = m.k();
    std::byte* const to = take(value_bytes(m, form));
    if (form == Form::bf16) {
      place.bf16.w = reinterpret_cast<const Bf16*>(to);
      panels(m, sizeof(Bf16), to, [&](std::int64_t panel, std::byte* area) {
        unpack_panel(m, panel, reinterpret_cast<Bf16*>(area));
      });
      return;
    }
    std::vector<Bf16> scales(static_cast<std::size_t>(scale_count(m)));
    panels(m, 1, to, [&](std::int64_t panel, std::byte* area) {
      quantize_panel(m, panel, reinterpret_cast<std::int8_t*>(area), scales.data());
    });
    std::byte* const scales_to = take(scales.size() * sizeof(Bf16));
    upload_.send_bytes(scales_to, scales.data(), scales.size() * sizeof(Bf16));
    place.int8 = {reinterpret_cast<const std::int8_t*>(to),
                  reinterpret_cast<const Bf16*>(scales_to), kInt8Group};
  }

 private:
  std::byte* take(std::size_t count) {
    std::byte* const at = next_;
    next_ += in_device_units(count);
    return at;
  }

  // fill(panel, area) writes a panel's rows, as many panels at a time as the area holds.
  template <class Fill>
  void panels(const PackedMatrix& m, std::size_t element, std::byte* to, const Fill& fill) {
    const std::size_t row = static_cast<std::size_t>(m.k()) * element;
    const std::size_t panel = kPanelColumns * row;
    check(panel <= upload_.area_bytes(),
          "a panel of weights is larger than the area it is sent through");
    const auto most = static_cast<std::int64_t>(upload_.area_bytes() / panel);
    for (std::int64_t begin = 0; begin < m.panels(); begin += most) {
      const std::int64_t count = std::min(most, m.panels() - begin);
      const std::int64_t rows = std::min(count * kPanelColumns, m.n() - begin * kPanelColumns);
      upload_.send(to + static_cast<std::size_t>(begin) * panel,
                   static_cast<std::size_t>(rows) * row, [&](std::byte* area) {
                     upload_.pool().run(count, [&](std::int64_t i) {
                       fill(begin + i, area + static_cast<std::size_t>(i) * panel);
                     });
                   });
    }
  }

  // `scales` are those of the whole matrix, [groups, n].
  static void quantize_panel(const PackedMatrix& m, std::int64_t panel, std::int8_t* q,
                             Bf16* scales) {
    const std::int64_t first = panel * kPanelColumns;
    const std::int64_t count = std::min(kPanelColumns, m.n() - first);
    const std::int64_t groups = cuda::ceil_div(m.k(), kInt8Group);
    std::vector<Bf16> rows(static_cast<std::size_t>(kPanelColumns * m.k()));
    std::vector<Bf16> of_panel(static_cast<std::size_t>(groups * count));
    unpack_panel(m, panel, rows.data());
    cuda::quantize_int8(rows.data(), count, m.k(), kInt8Group, q, of_panel.data());
    for (std::int64_t g = 0; g < groups; ++g) {
      std::copy_n(of_panel.data() + g * count, count, scales + g * m.n() + first);
    }
  }

  std::byte* next_;
  Upload& upload_;
};

}  // namespace

std::size_t DeviceWeights::bytes(const Weights& weights, CudaWeights type) {
  std::size_t all = 0;
  const auto add = [&](std::size_t bytes) { all += in_device_units(bytes); };
  DeviceWeights places;
  for_tensors(
      weights, places, type,
      [&](const std::vector<float>& v, const float*&) { add(v.size() * sizeof(float)); },
      [&](const PackedMatrix& m, DeviceMatrix&, Form form) {
        add(value_bytes(m, form));
        if (form == Form::int8) add(static_cast<std::size_t>(scale_count(m)) * sizeof(Bf16));
      });
  return all;
}

DeviceWeights::DeviceWeights(const Weights& weights, CudaWeights type, int device, Upload& upload)
    : memory_(device, bytes(weights, type), "the weights") {
  Filler fill(memory_.data(), upload);
  for_tensors(
      weights, *this, type,
      [&](const std::vector<float>& v, const float*& place) { fill.vector(v, place); },
      [&](const PackedMatrix& m, DeviceMatrix& place, Form form) { fill.matrix(m, place, form); });
}

}  // namespace cairn::model
