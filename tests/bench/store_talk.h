// SPDX-License-Identifier: BSD-3-Clause
// The two stores' protocols as seen by one client that joins, adds 1 to a counter, sets a key if it
// was the last to add, and waits for that key. Values only: the bytes to send, and how many come
// back. So one and the same program can drive both servers, and their costs can be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libstep/store/wire.h"

namespace dist_train {

struct Turn {
  std::string say;
  std::size_t hear = 0; // bytes of the answer; 0: this client is done
  bool counted = false; // the counter's answer was in what has been heard
};

class Talk {
public:
  virtual ~Talk() = default;
  // What the client does next; `heard` is the answer to its last turn, "" at first. Nothing when
  // the answer makes no sense.
  virtual std::optional<Turn> next(std::string_view heard) = 0;
};

// One client of `clients`, numbered from 0, of libstep's store with this token.
class StepTalk final : public Talk {
public:
  StepTalk(std::uint32_t number, std::uint32_t clients, std::string_view token)
      : number_(number), clients_(clients), token_(token) {}
  std::optional<Turn> next(std::string_view heard) override;

private:
  Turn ask(const std::string& frame, std::uint8_t kind, std::size_t answer);

  std::uint32_t number_, clients_;
  std::string_view token_;
  Hello hello_;
  int stage_ = 0;
};

// The same of PyTorch's c10d TCPStore, as its own client talks; to join is what every rank of
// init_process_group() does: say hello and count itself in.
class C10dTalk final : public Talk {
public:
  explicit C10dTalk(std::uint32_t clients) : clients_(clients) {}
  std::optional<Turn> next(std::string_view heard) override;

private:
  std::uint32_t clients_;
  int stage_ = 0;
};

} // namespace dist_train
