// SPDX-License-Identifier: BSD-3-Clause
// The thread behind Server: connections, handshakes, frames. Only server*.cpp includes this.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "libstep/store/collectives.h"
#include "libstep/store/key_store.h"
#include "libstep/store/server.h"
#include "libstep/store/stop_agreement.h"

namespace dist_train {

// Of a stream that is not open yet.
struct Handshake {
  TimePoint deadline;
  std::list<int>::iterator place; // among the strangers
};

// One stream, from its first byte to its last.
struct Connection {
  struct Piece {
    std::string head;
    Body body;
  };

  Socket fd;
  std::unique_ptr<Handshake> handshake; // nothing once open
  bool closing = false;                 // reads nothing more, ends when `out` is empty
  std::uint32_t rank = 0;               // once open
  std::string in;                       // of a message that is not all here; mostly empty
  std::list<Piece> out;
  std::size_t sent = 0;     // of the first piece
  std::size_t queued = 0;   // bytes in `out`
  std::uint32_t events = 0; // what epoll watches
  std::uint32_t silent = 0; // ticks since its last byte
};

std::string frame_of(News news, const std::string& body);

class Server::Loop {
public:
  explicit Loop(ServerOptions options);
  ~Loop();
  // rank 0's own stream comes with the call.
  Result<void> prepare(Socket own_end);
  void run();                              // the thread's body
  void ask_to_stop(double linger_seconds); // from another thread

private:
  void serve();
  void wake(); // from any thread
  bool finished(TimePoint now);
  TimePoint next_deadline() const;

  // server_loop.cpp: streams.
  void accept_all(TimePoint now);
  void pause_accepting(TimePoint until);
  void resume_accepting();
  void shed_strangers(TimePoint now);
  Result<void> add(Connection connection);
  bool advance(Connection& connection, TimePoint now); // false: the connection has ended
  bool read(Connection& connection, TimePoint now);    // likewise
  bool write(Connection& connection);                  // likewise
  void queue(Connection& connection, std::string head, Body body = nullptr);
  void watch(Connection& connection);
  void settle();
  void tick(TimePoint now);
  void drop(int fd, const std::string& why = {});

  // server_protocol.cpp: what the bytes mean.
  // How many of the bytes were whole messages; nothing: not ours, or malformed.
  std::optional<std::size_t> consume(Connection& connection, std::string_view bytes, TimePoint now);
  bool take_hello(Connection& connection, std::string_view bytes);
  void refuse(Connection& connection, Welcome welcome);
  void admit(Connection& connection, std::uint32_t rank);
  Verdict judge(const Hello& hello) const;
  void execute(Connection& connection, std::uint32_t id, Request& request, TimePoint now);
  // Returns the news of a loss.
  std::string gone(std::uint32_t rank, Presence presence, const std::string& why);
  void tell_all(News news, const std::string& body);
  void want_stop(std::string reason);
  void agree_on_stop();
  void begin_look_at_clock();
  void end_look_at_clock(TimePoint now);

  ServerOptions options_;
  Roster roster_;
  KeyStore keys_{roster_};
  Collectives collectives_{roster_};
  StopAgreement stop_{roster_};
  std::vector<Answer> answers_; // made, not yet queued on their streams
  std::string lost_news_;       // of the first rank that was lost; "": none was

  Socket epoll_;
  Socket wake_;
  TimePoint resume_at_ = TimePoint::max(); // accepting pauses when descriptors run out
  std::unordered_map<int, Connection> connections_;
  std::vector<int> by_rank_; // descriptor of each rank here, or -1
  std::list<int> strangers_; // in the handshake, oldest first
  std::vector<int> touched_; // something was queued: settle() writes it
  std::vector<int> ended_;   // to be dropped
  std::string block_;        // what one read takes, of any stream
  TimePoint next_tick_;
  // All times here are of a clock that stood still while this process did.
  Clock::duration still_{};

  // The end of the job: looked up by a thread once somebody wants to know.
  std::thread clock_;
  std::stop_source clock_unwanted_;
  std::atomic<std::int64_t> clock_answer_{-1}; // milliseconds; -1: not there yet
  std::optional<TimePoint> job_end_;           // max(): no limit is known
  std::vector<Waiter> want_time_;
  TimePoint stop_before_end_ = TimePoint::max();

  std::atomic<double> linger_{-1}; // 0 or more once asked to stop
  TimePoint stop_at_ = TimePoint::max();
};

} // namespace dist_train
