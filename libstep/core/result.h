// SPDX-License-Identifier: BSD-3-Clause
// Result<T>: a value or an Error. Used everywhere below the C boundary instead of exceptions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dist_train {

// What a person reads when something is wrong: what happened, with the place and the value seen,
// and what to do about it. Either line may be shown alone, so each is complete. `caret` is an
// optional excerpt of the input with a marker line below the offending part.
struct Error {
  std::string message;
  std::string hint = {};
  std::string caret = {};
};

template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

private:
  std::variant<T, Error> state_;
};

// A step that yields nothing but may fail.
template <>
class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  const Error& error() const { return *error_; }

private:
  std::optional<Error> error_;
};

} // namespace dist_train
