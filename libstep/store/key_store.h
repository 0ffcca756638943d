// SPDX-License-Identifier: BSD-3-Clause
// The keys of the store and those who wait for them. Time comes in as an argument; answers go out
// through a list. No locks: one thread.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "libstep/store/roster.h"

namespace dist_train {

class KeyStore {
public:
  explicit KeyStore(const Roster& roster) : roster_(roster) {}

  void handle(std::uint32_t rank, std::uint32_t id, SetKey request, std::vector<Answer>& out);
  void handle(std::uint32_t rank, std::uint32_t id, const AddKey& request,
              std::vector<Answer>& out);
  void handle(std::uint32_t rank, std::uint32_t id, CompareAndSet request,
              std::vector<Answer>& out);
  void handle(std::uint32_t rank, std::uint32_t id, const DeleteKey& request,
              std::vector<Answer>& out);
  void handle(std::uint32_t rank, std::uint32_t id, const CountKeys& request,
              std::vector<Answer>& out);
  void handle(std::uint32_t rank, std::uint32_t id, GetKey request, TimePoint now,
              std::vector<Answer>& out);
  void handle(std::uint32_t rank, std::uint32_t id, WaitKeys request, TimePoint now,
              std::vector<Answer>& out);

  // Answers those whose time has come; next_deadline() is never later than the earliest.
  void expire(TimePoint now, std::vector<Answer>& out);
  TimePoint next_deadline() const { return earliest_; }

  // A rank was lost: wakes all who wait, and lets nobody wait from now on.
  void fail_waiters(const Error& error, std::vector<Answer>& out);
  // A rank is gone: forgets what it waits for.
  void forget(std::uint32_t rank);

private:
  // Each waits on the first of its keys that is missing; the list above it exist.
  struct Pending {
    Waiter waiter;
    std::vector<std::string> keys;
    std::size_t next = 0;
    bool wants_value = false;
    std::uint64_t capacity = 0;
  };

  void store(const std::string& key, std::string value, std::vector<Answer>& out);
  void proceed(Pending pending, std::vector<Answer>& out);
  void begin(Pending pending, std::vector<Answer>& out);
  Answer value_answer(const Pending& pending) const;

  const Roster& roster_;
  std::unordered_map<std::string, Body> values_;
  std::unordered_multimap<std::string, Pending> pending_;
  TimePoint earliest_ = TimePoint::max();
};

} // namespace dist_train
