// SPDX-License-Identifier: Apache-2.0
// Sequences in paged memory for the tests of attention, and its documented order in plain loops.
#pragma once

#include <limits>
#include <memory>
#include <numeric>

#include "kernels/cuda/attention.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {

struct AttentionShape {
  std::int32_t kv_heads, group, head_dim;
  std::int64_t width() const { return static_cast<std::int64_t>(kv_heads) * head_dim; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
};

inline void round_to(Floats& v, Bf16) {
  for (float& x : v) x = to_float(to_bf16(x));
}
inline void round_to(Floats& v, F16) {
  for (float& x : v) x = to_float(to_f16(x));
}
inline void narrow_to(float x, Bf16& to) { to = to_bf16(x); }
inline void narrow_to(float x, F16& to) { to = to_f16(x); }

template <class Element>
std::vector<Element> narrowed(const Floats& v) {
  std::vector<Element> y(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) narrow_to(v[i], y[i]);
  return y;
}

/// Rows [begin, end) of one sequence.
struct Rows {
  std::int32_t sequence;
  std::int32_t begin, end;
};

/// Random sequences whose blocks lie shuffled in one pool; what no token filled is `garbage`.
template <class Element>
class Sequences {
 public:
  Sequences(AttentionShape shape_, const std::vector<std::int64_t>& lengths, float spread = 2.0F,
            Element garbage = Element{0xffff})
      : shape(shape_), random_(static_cast<std::uint32_t>(shape_.head_dim + shape_.group)) {
    std::int64_t blocks = 0;
    for (const std::int64_t n : lengths) {
      k.push_back(random_.floats(n * shape.width()));
      v.push_back(random_.floats(n * shape.width()));
      q.push_back(random_.floats(n * shape.width() * shape.group, -spread, spread));
      for (Floats* x : {&k.back(), &v.back(), &q.back()}) round_to(*x, Element{});
      blocks += ceil_div(n, kKvBlockTokens);
      stride_ = std::max(stride_, ceil_div(n, kKvBlockTokens));
    }
    place(lengths, blocks, garbage);
  }

  template <class Out>
  void describe(AttentionArgs<Element, Out>& a) {
    a.kv.pool = reinterpret_cast<std::byte*>(pool_->data());
    a.kv.block_bytes = block_bytes();
    a.kv.layer_offset = kLayerOffset;
    a.kv.tables = tables_->data();
    a.kv.table_stride = stride_;
    a.kv.kv_heads = shape.kv_heads;
    a.kv.head_dim = shape.head_dim;
    a.group = shape.group;
    a.scale = shape.scale();
  }

  /// Outputs of the rows, one after another, by attention_prefill or attention_decode.
  template <class Out = float>
  Floats run(const std::vector<Rows>& rows, bool decode, const float* gate = nullptr) {
    const std::int32_t tile_rows = decode ? kDecodeTileRows : kPrefillTileRows;
    std::vector<QueryTile> tiles{{}};  // padding
    Floats queries;
    std::int32_t row = 0;
    std::int32_t longest = 0;
    const auto width = shape.width() * shape.group;
    for (const Rows& r : rows) {
      append_query_tiles({r.sequence, row, r.end - r.begin, r.begin}, shape.group, tile_rows,
                         tiles);
      const Floats& from = q[at(r.sequence)];
      queries.insert(queries.end(), from.begin() + r.begin * width, from.begin() + r.end * width);
      row += r.end - r.begin;
      longest = std::max(longest, r.end);
    }
    const Buffer<Element> device_q(narrowed<Element>(queries));
    const Buffer<QueryTile> device_tiles(tiles);
    Buffer<Out> y(queries.size());
    AttentionDecodeArgs<Element, Out> args;
    describe(args);
    args.q = device_q.data();
    args.tiles = device_tiles.data();
    args.tile_count = static_cast<std::int64_t>(tiles.size());
    args.gate = gate;
    args.ld_gate = 2 * width;
    args.gate_head_stride = 2 * shape.head_dim;
    args.y = y.data();
    if (!decode) {
      attention_prefill<Element, Out>(nullptr, args);
      return as_floats(y.read());
    }
    for (const QueryTile& tile : tiles) {
      args.max_queries = std::max(args.max_queries, tile.queries);
    }
    args.ranges = (longest - 1) / kAttentionRange + 2;  // as for a longer sequence in the batch
    Buffer<float> scratch(at(attention_scratch_floats(args)));
    args.scratch = scratch.data();
    attention_decode(nullptr, args);
    return as_floats(y.read());
  }

  /// Softmax in fp64 of one row of one sequence.
  Floats exact(std::int32_t sequence, std::int64_t position) const {
    Floats y;
    const std::int64_t dim = shape.head_dim;
    for (std::int64_t h = 0; h < shape.kv_heads * shape.group; ++h) {
      const float* query = query_of(sequence, position, h);
      std::vector<double> p, o(at(dim), 0.0);
      for (std::int64_t j = 0; j <= position; ++j) {
        p.push_back(dot(query, slot(k, sequence, j, h), dim) * static_cast<double>(shape.scale()));
      }
      const double top = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - top);
      for (std::int64_t j = 0; j <= position; ++j) {
        for (std::int64_t d = 0; d < dim; ++d) {
          o[at(d)] += p[at(j)] / sum * static_cast<double>(slot(v, sequence, j, h)[d]);
        }
      }
      y.insert(y.end(), o.begin(), o.end());
    }
    return y;
  }

  /// The same row in the order of docs/order.md, a matrix instruction being exact but for one
  /// rounding, as in the harness.
  Floats in_order(std::int32_t sequence, std::int64_t position) const;

  AttentionShape shape;
  std::vector<Floats> k, v, q;  // of each sequence [tokens, kv_heads or heads, head_dim]

 private:
  static constexpr std::int64_t kLayerOffset = 192;  // a layer before ours

  std::int64_t block_bytes() const {
    return kLayerOffset + 2 * kKvBlockTokens * shape.width() * 2 + 64;
  }
  void place(const std::vector<std::int64_t>& lengths, std::int64_t blocks, Element garbage) {
    std::vector<std::int32_t> order(at(blocks));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = blocks - 1; i > 0; --i) {
      std::swap(order[at(i)], order[at(random_.below(i + 1))]);
    }
    std::vector<Element> memory(at(block_bytes() / 2 * blocks), garbage);
    std::vector<std::int32_t> tables;
    std::size_t next = 0;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      tables.resize(s * at(stride_), -1);
      for (std::int64_t t = 0; t < lengths[s]; ++t) {
        if (t % kKvBlockTokens == 0) tables.push_back(order[next++]);
        for (std::int64_t i = 0; i < shape.width(); ++i) {
          const std::int64_t share = (tables.back() * block_bytes() + kLayerOffset) / 2;
          const std::int64_t head = i / shape.head_dim;
          const std::int64_t slot = share + (head * kKvBlockTokens + t % 16) * shape.head_dim;
          narrow_to(k[s][at(t * shape.width() + i)], memory[at(slot + i % shape.head_dim)]);
          narrow_to(v[s][at(t * shape.width() + i)],
                    memory[at(slot + shape.width() * kKvBlockTokens + i % shape.head_dim)]);
        }
      }
    }
    tables.resize(lengths.size() * at(stride_), -1);
    pool_ = std::make_unique<Buffer<Element>>(memory);
    tables_ = std::make_unique<Buffer<std::int32_t>>(tables);
  }

  const float* query_of(std::int32_t sequence, std::int64_t position, std::int64_t head) const {
    return q[at(sequence)].data() + position * shape.width() * shape.group + head * shape.head_dim;
  }
  const float* slot(const std::vector<Floats>& of, std::int32_t sequence, std::int64_t position,
                    std::int64_t head) const {
    return of[at(sequence)].data() + position * shape.width() + head / shape.group * shape.head_dim;
  }
  static double dot(const float* a, const float* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum;
  }
  static float add(float acc, double products) {
    return static_cast<float>(static_cast<double>(acc) + products);
  }

  Random random_;
  std::int64_t stride_ = 0;
  std::unique_ptr<Buffer<Element>> pool_;
  std::unique_ptr<Buffer<std::int32_t>> tables_;
};

/// ((x0 + x2) + (x1 + x3)).
inline float fold_four(const float* x) { return (x[0] + x[2]) + (x[1] + x[3]); }

template <class Element>
Floats Sequences<Element>::in_order(std::int32_t sequence, std::int64_t position) const {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Floats y;
  const std::int64_t dim = shape.head_dim;
  for (std::int64_t h = 0; h < shape.kv_heads * shape.group; ++h) {
    const float* query = query_of(sequence, position, h);
    float total_top = kLowest, total_sum = 0;
    Floats total(at(dim), 0.0F);
    for (std::int64_t range = 0; range <= position; range += kAttentionRange) {
      float top = kLowest;
      Floats sums(16, 0.0F), values(at(dim), 0.0F);
      const std::int64_t end = std::min<std::int64_t>(range + kAttentionRange, position + 1);
      for (std::int64_t tile = range; tile < end; tile += kAttentionTile) {
        const std::int64_t live = std::min<std::int64_t>(kAttentionTile, end - tile);
        Floats w(kAttentionTile, kLowest);
        for (std::int64_t j = 0; j < live; ++j) {
          float score = 0;
          for (std::int64_t d = 0; d < dim; d += 16) {
            score = add(score, dot(query + d, slot(k, sequence, tile + j, h) + d, 16));
          }
          w[at(j)] = score * shape.scale();
        }
        const float before = top;
        top = std::max(top, *std::max_element(w.begin(), w.end()));
        const float rescale = exp_f32(before - top);
        for (float& x : w) x = exp_f32(x - top);
        round_to(w, Element{});
        for (std::size_t lane = 0; lane < 16; ++lane) {  // lane % 4 of warp lane / 4
          const float* of = w.data() + lane / 4 * 16 + lane % 4 * 2;
          sums[lane] = std::fma(sums[lane], rescale, (of[0] + of[1]) + (of[8] + of[9]));
        }
        for (std::int64_t d = 0; d < dim; ++d) {
          float& value = values[at(d)];
          value *= rescale;
          for (std::int64_t j = 0; j < kAttentionTile; j += 16) {
            double products = 0;
            for (std::int64_t i = j; i < std::min(j + 16, live); ++i) {
              products += static_cast<double>(w[at(i)]) *
                          static_cast<double>(slot(v, sequence, tile + i, h)[d]);
            }
            value = add(value, products);
          }
        }
      }
      Floats warps;
      for (std::size_t warp = 0; warp < 4; ++warp) {
        warps.push_back(fold_four(sums.data() + 4 * warp));
      }
      const float joined = std::max(total_top, top);
      const float a = exp_f32(total_top - joined), b = exp_f32(top - joined);
      total_top = joined;
      total_sum = std::fma(total_sum, a, fold_four(warps.data()) * b);
      for (std::size_t d = 0; d < total.size(); ++d) {
        total[d] = std::fma(total[d], a, values[d] * b);
      }
    }
    const float inverse = 1.0F / total_sum;
    for (const float x : total) y.push_back(x * inverse + 0.0F);
  }
  return y;
}

}  // namespace cairn::kernels::cuda::testing
