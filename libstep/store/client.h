// SPDX-License-Identifier: BSD-3-Clause
// A rank's end of the store: one stream, and requests from any number of threads. A caller that
// waits reads the stream itself, which saves two changes of threads; while nobody waits, or for
// those who found another reading, a Reader's thread does. Whoever reads hands out the answers and
// keeps the news of lost ranks and of a stop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libstep/store/reader.h"
#include "libstep/store/socket.h"
#include "libstep/store/wire.h"

namespace dist_train {

// Requests that no caller waits for carry this number; their answers are news like any other.
constexpr std::uint32_t kNobody = UINT32_MAX;

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
  // stream: past the handshake. reader: of the same step; without one the client has its own.
  static Result<std::unique_ptr<Client>> start(Socket stream, ClientOptions options,
                                               std::shared_ptr<Reader> reader = nullptr);
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
  // reader's thread at each sign of life, until a stop was asked for.
  void poll_stops(std::function<std::optional<std::string>()> poll);

private:
  friend class Reader; // reads, ticks and reports
  struct Slot {
    std::condition_variable wake;
    std::optional<Reply> reply;
  };

  Client(Socket stream, ClientOptions options, std::shared_ptr<Reader> reader);

  // client.cpp: what callers ask.
  bool await(Slot& slot, TimePoint deadline); // false: not in time
  bool send_small(const Request& request, std::uint32_t id);
  Result<void> send_frame(const Request& request, std::uint32_t id, const std::string& body,
                          TimePoint deadline);
  std::string store_rank_text() const; // "rank 0 (node01, local 0)"

  // client_stream.cpp: what the store says.
  // What is done for no caller in particular, and may run out of memory: that ends the connection.
  template <typename Work>
  void or_end(Work work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      end({STEP_ERR_MEMORY, {}, {"out of memory while an answer of the store came in"}});
    }
  }
  void read_unless_read(); // by a caller
  void read();             // for whoever has `reading_`
  Result<void> read_frames();
  Result<void> take_frame(const Header& header, std::string body);
  bool take_news(News news, std::string_view body); // false: it makes no sense
  void tick();
  void tell_signs(); // of life, and of a stop
  void tell_passed();
  void end_of_stream(const Error& error);
  void end(Reply why);

  Socket stream_;
  const ClientOptions options_;
  const std::shared_ptr<Reader> reader_;
  std::mutex write_mutex_;                // one frame at a time
  std::atomic<std::uint64_t> sent_{0};    // pieces, ever
  std::atomic<std::uint32_t> silent_ = 0; // ticks since the last byte from the store
  std::uint64_t sent_seen_ = 0;           // at the last tick
  std::string in_;                        // what has come and makes no whole frame; see reading_

  std::mutex mutex_;     // all below
  bool reading_ = false; // somebody reads the stream: nobody else may
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
