// SPDX-License-Identifier: BSD-3-Clause
// The step's store as a c10d::Store, for process groups in C++ (libtorch 2.13). Header only:
// libstep itself needs no torch. Keys longer than STEP_KEY_MAX and queues are refused. Errors are
// c10::DistStoreError with the library's text.
#ifndef LIBSTEP_STEP_TORCH_HPP
#define LIBSTEP_STEP_TORCH_HPP

#include <libstep/step.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

class StepStore : public c10d::Store {
public:
  // The handle stays the caller's and must outlive the store and all its clones.
  explicit StepStore(step_t* step, std::chrono::milliseconds timeout = kDefaultTimeout)
      : c10d::Store(timeout), step_(step) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<StepStore>(step_, timeout_);
  }

  using c10d::Store::compareSet;
  using c10d::Store::set;
  using c10d::Store::wait;

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    check(step_set(step_, key.c_str(), value.data(), value.size()), "set", key);
  }

  std::vector<uint8_t> get(const std::string& key) override { return read(key, seconds(timeout_)); }

  int64_t add(const std::string& key, int64_t value) override {
    int64_t sum = 0;
    check(step_add(step_, key.c_str(), value, &sum), "add", key);
    return sum;
  }

  // The value that the key has afterwards; `current` where the key is missing and not expected to.
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& current,
                                  const std::vector<uint8_t>& desired) override {
    // An empty `current` stands for a missing key, as in c10d's own stores.
    for (const bool missing : {true, false}) {
      if (missing && !current.empty())
        continue;
      static constexpr uint8_t kNothing = 0;
      const uint8_t* data = current.empty() ? &kNothing : current.data();
      int swapped = 0;
      check(step_compare_and_set(step_, key.c_str(), missing ? nullptr : data, current.size(),
                                 desired.data(), desired.size(), &swapped),
            "compareSet", key);
      if (swapped != 0)
        return desired;
    }
    return check({key}) ? get(key) : current;
  }

  bool deleteKey(const std::string& key) override {
    int existed = 0;
    check(step_delete(step_, key.c_str(), &existed), "deleteKey", key);
    return existed != 0;
  }

  bool check(const std::vector<std::string>& keys) override {
    const auto code = wait_for(keys, 0);
    if (code != STEP_ERR_NOT_FOUND)
      check(code, "check", first(keys));
    return code == STEP_OK;
  }

  int64_t getNumKeys() override {
    int64_t count = 0;
    check(step_key_count(step_, &count), "getNumKeys", "");
    return count;
  }

  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }

  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    check(wait_for(keys, seconds(timeout)), "wait", first(keys));
  }

  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    std::vector<std::vector<uint8_t>> values;
    values.reserve(keys.size());
    for (const auto& key : keys)
      values.push_back(get(key));
    return values;
  }

  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override {
    TORCH_CHECK(keys.size() == values.size(), "multiSet: ", keys.size(), " keys, ", values.size(),
                " values");
    for (std::size_t i = 0; i < keys.size(); ++i)
      set(keys[i], values[i]);
  }

  void append(const std::string& key, const std::vector<uint8_t>& value) override {
    for (;;) { // until nobody came in between
      const bool missing = !check({key});
      std::vector<uint8_t> before = missing ? std::vector<uint8_t>() : read(key, 0);
      std::vector<uint8_t> after = before;
      after.insert(after.end(), value.begin(), value.end());
      before.reserve(1); // a pointer that is not null even when there are no bytes
      int swapped = 0;
      check(step_compare_and_set(step_, key.c_str(), missing ? nullptr : before.data(),
                                 before.size(), after.data(), after.size(), &swapped),
            "append", key);
      if (swapped != 0)
        return;
    }
  }

  bool hasExtendedApi() const override { return true; }

private:
  // c10d's "no timeout" is zero.
  static double seconds(const std::chrono::milliseconds& timeout) {
    return timeout == kNoTimeout ? -1.0 : static_cast<double>(timeout.count()) / 1000;
  }

  static std::string first(const std::vector<std::string>& keys) {
    return keys.empty() ? "" : keys.front();
  }

  step_err_t wait_for(const std::vector<std::string>& keys, double wait_seconds) {
    std::vector<const char*> names;
    names.reserve(keys.size());
    for (const auto& key : keys)
      names.push_back(key.c_str());
    return step_wait(step_, names.data(), names.size(), wait_seconds);
  }

  std::vector<uint8_t> read(const std::string& key, double wait_seconds) {
    std::vector<uint8_t> value(1024);
    for (;;) { // the value may grow between two looks
      std::size_t length = value.size();
      const step_err_t code = step_get(step_, key.c_str(), value.data(), &length, wait_seconds);
      value.resize(length);
      if (code != STEP_ERR_TOO_SMALL) {
        check(code, "get", key);
        return value;
      }
    }
  }

  void check(step_err_t code, const char* operation, const std::string& key) const {
    if (code == STEP_OK)
      return;
    const std::string hint = step_hint(step_);
    C10_THROW_ERROR(DistStoreError, std::string("StepStore::") + operation + "(" + key + "): " +
                                        step_error(step_) + (hint.empty() ? "" : "; " + hint));
  }

  step_t* step_;
};

} // namespace dist_train

#endif
