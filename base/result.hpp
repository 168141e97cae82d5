// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an error, for callers' mistakes and expected shortages on the serving path.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace cairn {

/// What went wrong, in kinds that a caller reacts to; http/ maps each to a status.
enum class ErrorCode : std::uint8_t {
  bad_request,       // the request is malformed or names an impossible value
  context_overflow,  // prompt (plus what must be generated) exceeds the context length
  queue_full,        // try again later
  cancelled,         // the client or the operator ended it
  deadline,          // its time ran out
  no_memory,         // does not fit the configured budgets
  not_found,         // no such model, route or file
  unsupported,       // understood, but not offered
  unavailable,       // the engine or its device is down or shutting down
  internal,          // an invariant broke; a defect of ours
};

/// Stable lower-case spelling for logs and error objects.
const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;  // one sentence in the user's terms
  std::string param;    // the field it is about, empty when none
};

/// A value or an Error. Not thread-safe; reading the side that is not there throws InvariantError.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : data_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return data_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value();
  const T& value() const;
  T take() { return std::move(value()); }
  const Error& error() const;

  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }

 private:
  std::variant<T, Error> data_;
};

/// Result of an operation that yields nothing.
struct Unit {};
using Status = Result<Unit>;
inline Status ok_status() { return Unit{}; }

[[noreturn]] void throw_bad_result_access(const Error* error);

template <class T>
T& Result<T>::value() {
  if (!ok()) throw_bad_result_access(&std::get<1>(data_));
  return std::get<0>(data_);
}
template <class T>
const T& Result<T>::value() const {
  if (!ok()) throw_bad_result_access(&std::get<1>(data_));
  return std::get<0>(data_);
}
template <class T>
const Error& Result<T>::error() const {
  if (ok()) throw_bad_result_access(nullptr);
  return std::get<1>(data_);
}

}  // namespace cairn
