// SPDX-License-Identifier: BSD-3-Clause
// A rank's end of the store: one stream, requests from any number of threads, and a reader thread
// that hands out the answers and keeps the news of lost ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libstep/store/socket.h"
#include "libstep/store/wire.h"

namespace dist_train {

struct Reply {
  step_err_t code = STEP_OK;
  std::string body; // on success, and with STEP_ERR_TOO_SMALL
  Error error;      // otherwise
};

class Client {
public:
  // stream: past the handshake. store_rank_text: "rank 0 (node01)", for messages.
  static Result<std::unique_ptr<Client>> start(Socket stream, std::string store_rank_text);
  ~Client();

  // Sends and waits. wait_ms is what the request itself says the store may take (negative: as long
  // as it takes); a store that stays silent for a while longer is given up with STEP_ERR_TIMEOUT.
  Reply call(const Request& request, std::int64_t wait_ms = 0);

  // The first lost rank. STEP_ERR_TIMEOUT when there is none in time, STEP_ERR_NOT_FOUND after
  // close_watch() or once rank 0 has closed the step in order.
  Reply wait_lost(std::uint32_t& rank, std::int64_t wait_ms);
  void close_watch();

private:
  struct Slot {
    std::condition_variable wake;
    std::optional<Reply> reply;
  };

  Client(Socket stream, std::string store_rank_text);
  void read_until_end();
  bool take_frame(const Header& header, std::string body); // false: it makes no sense
  void end(Reply why);

  Socket stream_;
  const std::string store_rank_text_;
  std::thread reader_;
  std::mutex write_mutex_; // one frame at a time

  std::mutex mutex_; // all below
  std::map<std::uint32_t, Slot*> slots_;
  std::uint32_t last_id_ = 0;
  std::optional<Reply> ended_; // why the connection is of no more use
  bool store_closed_ = false;  // in order
  bool watch_closed_ = false;
  std::vector<std::pair<std::uint32_t, Error>> lost_;
  std::condition_variable news_;
};

} // namespace dist_train
