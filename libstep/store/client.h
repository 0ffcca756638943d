// SPDX-License-Identifier: BSD-3-Clause
// A rank's end of the store: one stream, requests from any number of threads, and a reader thread
// that hands out the answers, gives signs of life, and keeps the news of lost ranks and of a stop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
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

struct ClientOptions {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::string store_node;      // of rank 0; "" where unknown
  double silence_seconds = 30; // of rank 0, after which it counts as lost; negative: never
};

class Client {
public:
  // stream: past the handshake.
  static Result<std::unique_ptr<Client>> start(Socket stream, ClientOptions options);
  ~Client();

  // Sends and waits. wait_ms is what the request itself says the store may take (negative: as long
  // as it takes); a store that stays silent for a while longer is given up with STEP_ERR_TIMEOUT.
  Reply call(const Request& request, std::int64_t wait_ms = 0);

  // The first lost rank. STEP_ERR_TIMEOUT when there is none in time, STEP_ERR_NOT_FOUND after
  // close_watch() or once rank 0 has closed the step in order.
  Reply wait_lost(std::uint32_t& rank, std::int64_t wait_ms);
  void close_watch();

  // Whether the program stops after this iteration: `stop` is the same on all ranks. Waits for
  // nobody, but for one exchange of messages once a stop was asked for. Not STEP_OK: rank 0 was
  // lost, and nothing can be agreed on any more.
  Reply should_stop(std::int64_t iteration, bool& stop);
  // Why a stop was asked for; "" while none was. Lives as long as the client.
  const char* stop_reason();

  // `poll` tells why a stop is wanted, if it is (a signal came): asked by should_stop() and by the
  // reader thread at each sign of life, until a stop was asked for.
  void poll_stops(std::function<std::optional<std::string>()> poll);

private:
  struct Slot {
    std::condition_variable wake;
    std::optional<Reply> reply;
  };

  Client(Socket stream, ClientOptions options);
  void read_until_end();
  Result<void> read_frames(std::string& in); // in: what has come and makes no whole frame
  Result<void> take_frame(const Header& header, std::string body);
  bool take_news(News news, std::string_view body); // false: it makes no sense
  void tell_signs();                                // of life, and of a stop
  void tell_passed();
  bool send_small(const Request& request, std::uint32_t id);
  Result<void> send_frame(const Request& request, std::uint32_t id, const std::string& body,
                          TimePoint deadline);
  std::string store_rank_text() const; // "rank 0 (node01, local 0)"
  void end(Reply why);

  Socket stream_;
  const ClientOptions options_;
  std::thread reader_;
  std::mutex write_mutex_;             // one frame at a time
  std::atomic<std::uint64_t> sent_{0}; // pieces, ever

  // Of the reader thread alone.
  std::uint32_t silent_ = 0; // ticks since the last byte from the store
  std::uint64_t sent_seen_ = 0;
  bool reports_ = false; // owes the store a report that it could not send yet

  std::mutex mutex_; // all below
  std::map<std::uint32_t, Slot*> slots_;
  std::uint32_t last_id_ = 0;
  std::optional<Reply> ended_; // why the connection is of no more use
  bool store_closed_ = false;  // in order
  bool watch_closed_ = false;
  std::vector<std::pair<std::uint32_t, Error>> lost_;
  std::condition_variable news_;
  std::int64_t iteration_ = kNoIteration;       // of should_stop()
  std::int64_t store_iteration_ = kNoIteration; // of rank 0
  bool stop_asked_ = false;
  bool owes_report_ = false;
  std::int64_t passed_ = kNoIteration;
  std::optional<std::int64_t> stop_at_;
  std::string stop_reason_; // written once, before stop_asked_
  std::function<std::optional<std::string>()> poll_;
};

} // namespace dist_train
