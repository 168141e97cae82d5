// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublaslt.hpp"

#include "base/check.hpp"

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)  // the test harness has no library

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <type_traits>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/lt_choices.hpp"

namespace cairn::kernels::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
/// All that our launches promise of a pointer; the library counts on 256 unless told.
constexpr std::uint32_t kAlignment = 16;

/// The library's entry points. It is never closed: it keeps state of its own.
struct Library {
  void* handle = nullptr;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;

  void check(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(std::string("cuBLASLt: ") + what + ": " + status_string(status));
  }
};

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) {
    throw DeviceError(std::string("cuBLASLt: the library has no ") + name);
  }
}

Library open_library() {
  Library lib;
  std::string first_error;
  // Both have the entry points and types that are used here.
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    lib.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (lib.handle != nullptr) break;
    if (first_error.empty()) first_error = dlerror();
  }
  if (lib.handle == nullptr) throw DeviceError("cuBLASLt cannot be loaded: " + first_error);
  find(lib.handle, "cublasLtGetVersion", lib.version);
  find(lib.handle, "cublasLtGetStatusString", lib.status_string);
  find(lib.handle, "cublasLtCreate", lib.create);
  find(lib.handle, "cublasLtDestroy", lib.destroy);
  find(lib.handle, "cublasLtMatmul", lib.matmul);
  find(lib.handle, "cublasLtMatmulAlgoCheck", lib.algo_check);
  find(lib.handle, "cublasLtMatmulAlgoGetHeuristic", lib.heuristic);
  find(lib.handle, "cublasLtMatmulDescCreate", lib.desc_create);
  find(lib.handle, "cublasLtMatmulDescDestroy", lib.desc_destroy);
  find(lib.handle, "cublasLtMatmulDescSetAttribute", lib.desc_set);
  find(lib.handle, "cublasLtMatrixLayoutCreate", lib.layout_create);
  find(lib.handle, "cublasLtMatrixLayoutDestroy", lib.layout_destroy);
  find(lib.handle, "cublasLtMatmulPreferenceCreate", lib.preference_create);
  find(lib.handle, "cublasLtMatmulPreferenceDestroy", lib.preference_destroy);
  find(lib.handle, "cublasLtMatmulPreferenceSetAttribute", lib.preference_set);
  return lib;
}

/// The library's columns are our rows: y^T [n, rows] = W [n, k] x^T [k, rows], W read transposed.
class Problem {
 public:
  Problem(const Library& lib, const LtShape& shape, std::int64_t rows, std::int64_t ldx,
          std::int64_t ldy)
      : lib_(lib) {
    const auto n = static_cast<std::uint64_t>(shape.n), k = static_cast<std::uint64_t>(shape.k);
    const auto columns = static_cast<std::uint64_t>(rows);
    const cudaDataType out = shape.bf16_out ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    lib.check(lib.desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
    lib.check(lib.desc_set(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
              "a description");
    lib.check(lib.layout_create(&w, CUDA_R_16BF, k, n, shape.k), "the layout of a weight");
    lib.check(lib.layout_create(&x, CUDA_R_16BF, k, columns, ldx), "the layout of x");
    lib.check(lib.layout_create(&y, out, n, columns, ldy), "the layout of y");
  }
  ~Problem() {
    for (cublasLtMatrixLayout_t layout : {w, x, y}) {
      if (layout != nullptr) lib_.layout_destroy(layout);
    }
    if (operation != nullptr) lib_.desc_destroy(operation);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;

 private:
  const Library& lib_;
};

cublasLtMatmulAlgo_t native(const LtAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t algo;
  static_assert(sizeof algo.data == sizeof algorithm.words);
  std::memcpy(algo.data, algorithm.words.data(), sizeof algo.data);
  return algo;
}

class RealLtGemm final : public LtGemm {
 public:
  RealLtGemm(int device, const std::string& record)
      : device_(device),
        lib_(open_library()),
        stream_(device),
        workspace_(device, kWorkspaceBytes, "cuBLASLt's workspace"),
        choices_({describe_device(device).name, lib_.version()}, record) {
    lib_.check(lib_.create(&handle_), "start");
  }
  ~RealLtGemm() override { lib_.destroy(handle_); }
  RealLtGemm(const RealLtGemm&) = delete;
  RealLtGemm& operator=(const RealLtGemm&) = delete;

  bool prepare(Bf16Weight w, std::int64_t n, std::int64_t k, bool bf16_out,
               std::int64_t max_rows) override {
    const LtShape shape{n, k, bf16_out};
    const std::int64_t rows = gemm_bucket(max_rows);
    Prepared& prepared = prepared_[shape];
    if (prepared.rows >= rows) return true;
    Trials trials(*this, w.w, rows);
    const auto algorithm = choices_.prepare(shape, max_rows, trials);
    if (!algorithm) {
      prepared_.erase(shape);
      return false;
    }
    prepared = {*algorithm, rows};
    return true;
  }

  bool run(Stream stream, const GemmArgs<Bf16Weight, float>& args) override {
    return queue(stream, args);
  }
  bool run(Stream stream, const GemmArgs<Bf16Weight, Bf16>& args) override {
    return queue(stream, args);
  }
  int rejected() const override { return choices_.rejected(); }
  std::string digest() const override { return choices_.digest(); }

 private:
  struct Prepared {
    LtAlgorithm algorithm;
    std::int64_t rows = 0;
  };

  struct Operands {
    const Bf16* w;
    const void* x;
    std::int64_t ldx;
  };

  /// The device side of the tests: x goes up, the library multiplies, the wanted rows come back.
  class Trials final : public LtTrials {
   public:
    Trials(RealLtGemm& gemm, const Bf16* w, std::int64_t most_rows)
        : gemm_(gemm), w_(w), most_rows_(most_rows) {}

    std::optional<LtAlgorithm> choose(const LtShape& shape) override { return gemm_.advice(shape); }

    std::optional<std::vector<std::byte>> multiply(const LtShape& shape,
                                                   const LtAlgorithm& algorithm,
                                                   std::span<const Bf16> x,
                                                   std::span<const std::int64_t> places) override {
      const std::int64_t rows = static_cast<std::int64_t>(x.size()) / shape.k;
      if (!gemm_.takes(shape, algorithm, rows)) return std::nullopt;
      reserve(shape);
      WorkStream& stream = gemm_.stream_;
      std::memcpy(pinned_.data(), x.data(), x.size_bytes());
      stream.copy_to_device(x_.data(), pinned_.data(), x.size_bytes());
      const Operands in{w_, x_.data(), shape.k};
      gemm_.multiply(stream.get(), shape, algorithm, rows, in, y_.data(), shape.n);
      const std::size_t bytes = shape.row_bytes();
      std::vector<std::byte> wanted(places.size() * bytes);
      check(places.size() <= kRows, "cublaslt: too many rows are asked for");
      for (std::size_t i = 0; i < places.size(); ++i) {
        const std::byte* from = y_.data() + static_cast<std::size_t>(places[i]) * bytes;
        stream.copy_to_host(pinned_.data() + i * bytes, from, bytes);
      }
      stream.finish();
      std::memcpy(wanted.data(), pinned_.data(), wanted.size());
      return wanted;
    }

   private:
    static constexpr std::size_t kRows = 16;

    void reserve(const LtShape& shape) {
      if (x_.size() > 0) return;
      const auto rows = static_cast<std::size_t>(most_rows_);
      const std::string what = "the tests of cuBLASLt";
      x_ = DeviceBuffer(gemm_.device_, rows * static_cast<std::size_t>(shape.k) * 2, what);
      y_ = DeviceBuffer(gemm_.device_, rows * shape.row_bytes(), what);
      const std::size_t bytes = std::max(x_.size(), kRows * shape.row_bytes());
      pinned_ = PinnedBuffer(gemm_.device_, bytes, what);
    }

    RealLtGemm& gemm_;
    const Bf16* w_;
    std::int64_t most_rows_;
    DeviceBuffer x_, y_;
    PinnedBuffer pinned_;
  };

  /// The first of the library's proposals; none of them splits k among blocks.
  std::optional<LtAlgorithm> advice(const LtShape& shape) const {
    const Problem problem(lib_, shape, gemm_bucket(1), shape.k, shape.n);
    cublasLtMatmulPreference_t preference = nullptr;
    lib_.check(lib_.preference_create(&preference), "a preference");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      lib_.check(lib_.preference_set(preference, what, &value, sizeof value), "a preference");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
    for (const auto what :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(what, kAlignment);
    }
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status =
        lib_.heuristic(handle_, problem.operation, problem.w, problem.x, problem.y, problem.y,
                       preference, 1, &result, &found);
    lib_.preference_destroy(preference);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) lib_.check(status, "the choice of an algorithm");
    if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
      return std::nullopt;
    }
    LtAlgorithm algorithm;
    std::memcpy(algorithm.words.data(), result.algo.data, sizeof result.algo.data);
    return algorithm;
  }

  bool takes(const LtShape& shape, const LtAlgorithm& algorithm, std::int64_t rows) const {
    const Problem problem(lib_, shape, rows, shape.k, shape.n);
    const cublasLtMatmulAlgo_t algo = native(algorithm);
    cublasLtMatmulHeuristicResult_t result{};
    return lib_.algo_check(handle_, problem.operation, problem.w, problem.x, problem.y, problem.y,
                           &algo, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  void multiply(Stream stream, const LtShape& shape, const LtAlgorithm& algorithm,
                std::int64_t rows, const Operands& in, void* y, std::int64_t ldy) const {
    const Problem problem(lib_, shape, rows, in.ldx, ldy);
    const cublasLtMatmulAlgo_t algo = native(algorithm);
    const float one = 1.0F, zero = 0.0F;
    lib_.check(
        lib_.matmul(handle_, problem.operation, &one, in.w, problem.w, in.x, problem.x, &zero, y,
                    problem.y, y, problem.y, &algo, workspace_.data(), workspace_.size(), stream),
        "a product");
  }

  template <class Out>
  bool queue(Stream stream, const GemmArgs<Bf16Weight, Out>& args) const {
    const LtShape shape{args.n, args.k, std::is_same_v<Out, Bf16>};
    const auto found = prepared_.find(shape);
    if (found == prepared_.end()) return false;
    const std::int64_t rows = gemm_bucket(args.rows);
    check(rows <= found->second.rows, "cublaslt: more rows than were tested");
    if (args.rows == 0) return true;
    const Operands in{args.weight.w, args.x, args.ldx};
    multiply(stream, shape, found->second.algorithm, rows, in, args.y, args.ldy);
    return true;
  }

  int device_;
  Library lib_;
  cublasLtHandle_t handle_ = nullptr;
  WorkStream stream_;
  DeviceBuffer workspace_;
  LtChoices choices_;
  std::map<LtShape, Prepared> prepared_;
};

}  // namespace

std::unique_ptr<LtGemm> make_lt_gemm(int device, const std::string& record) {
  return std::make_unique<RealLtGemm>(device, record);
}

}  // namespace cairn::kernels::cuda

#else

namespace cairn::kernels::cuda {

std::unique_ptr<LtGemm> make_lt_gemm(int, const std::string&) {
  throw DeviceError("cuBLASLt: this program was built without it");
}

}  // namespace cairn::kernels::cuda

#endif
