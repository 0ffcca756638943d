// SPDX-License-Identifier: BSD-3-Clause
// step.h for C++: a handle that closes itself and errors as exceptions. Header only; everything
// else of step.h is used with handle.get().
#ifndef LIBSTEP_STEP_HPP
#define LIBSTEP_STEP_HPP

#include <libstep/step.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace dist_train {

// what() is the sentence and the hint of the library.
class StepError : public std::runtime_error {
public:
  StepError(step_err_t code, const step_t* step)
      : std::runtime_error(text(code, step)), code_(code) {}
  step_err_t code() const noexcept { return code_; }

private:
  static std::string text(step_err_t code, const step_t* step) {
    std::string text = step_error(step);
    if (text.empty())
      text = step_strerror(code);
    if (*step_hint(step) != '\0')
      text += std::string("; ") + step_hint(step);
    return text;
  }

  step_err_t code_;
};

class Step {
public:
  // Throws StepError.
  explicit Step(const step_options_t* options = nullptr) {
    if (const step_err_t code = step_open(&step_, options))
      throw StepError(code, nullptr);
  }
  Step(Step&& other) noexcept : step_(std::exchange(other.step_, nullptr)) {}
  Step& operator=(Step&& other) noexcept {
    std::swap(step_, other.step_);
    return *this;
  }
  ~Step() { step_close(step_); }

  step_t* get() const noexcept { return step_; }
  int rank() const noexcept { return step_rank(step_); }
  int world_size() const noexcept { return step_world_size(step_); }

  // Throws where a call did not return STEP_OK: step.check(step_barrier(step.get(), 60)).
  void check(step_err_t code) const {
    if (code != STEP_OK)
      throw StepError(code, step_);
  }

  void set(const std::string& key, const std::string& value) {
    check(step_set(step_, key.c_str(), value.data(), value.size()));
  }
  // Waits for the key; a negative time waits as long as it takes.
  std::string get(const std::string& key, double seconds) {
    std::string value(256, '\0');
    for (;;) { // the value may grow between two looks
      std::size_t length = value.size();
      const step_err_t code = step_get(step_, key.c_str(), value.data(), &length, seconds);
      value.resize(length);
      if (code != STEP_ERR_TOO_SMALL) {
        check(code);
        return value;
      }
    }
  }
  std::int64_t add(const std::string& key, std::int64_t delta) {
    std::int64_t sum = 0;
    check(step_add(step_, key.c_str(), delta, &sum));
    return sum;
  }
  void barrier(double seconds) { check(step_barrier(step_, seconds)); }

private:
  step_t* step_ = nullptr;
};

} // namespace dist_train

#endif
