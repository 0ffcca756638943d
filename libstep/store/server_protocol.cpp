// SPDX-License-Identifier: BSD-3-Clause
// The server's side of the protocol: who may come in, and what each request does.
#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include <sys/random.h>

#include "libstep/store/server_loop.h"

namespace dist_train {

bool Server::Loop::consume(Connection& connection, TimePoint now) {
  using Phase = Connection::Phase;
  std::size_t done = 0;
  const auto available = [&] { return connection.in.size() - done; };
  const auto take = [&](std::size_t count) {
    const auto bytes = std::string_view(connection.in).substr(done, count);
    done += count;
    return bytes;
  };
  if (connection.phase == Phase::kHello && available() >= kHelloSize) {
    const auto hello = decode_hello(take(kHelloSize));
    if (!hello)
      return false;
    connection.hello = *hello;
    if (!take_hello(connection))
      return false;
  }
  if (connection.phase == Phase::kProof && available() >= kProofSize) {
    connection.nonce += take(kProofSize); // nonce, then the proof over it
    if (!take_proof(connection))
      return false;
  }
  while (connection.phase == Phase::kOpen && !connection.closing && available() >= kHeaderSize) {
    const auto header = decode_header(std::string_view(connection.in).substr(done, kHeaderSize));
    if (!header)
      return false;
    if (available() < kHeaderSize + header->length)
      break;
    take(kHeaderSize);
    auto request = decode_request(header->kind, take(header->length));
    if (!request)
      return false;
    execute(connection, header->id, *request, now);
  }
  connection.in.erase(0, done);
  return true;
}

bool Server::Loop::take_hello(Connection& connection) {
  connection.nonce.resize(kNonceSize);
  if (::getrandom(connection.nonce.data(), kNonceSize, 0) != static_cast<ssize_t>(kNonceSize))
    return false;
  Challenge challenge;
  challenge.nonce = connection.nonce;
  if (connection.hello.version != kProtocolVersion) {
    challenge.verdict = Verdict::kWrongVersion;
    connection.closing = true;
  }
  const Digest digest = proof(options_.token, Side::kStore, connection.hello, connection.nonce);
  challenge.proof = as_text(digest);
  queue(connection, encode(challenge));
  connection.phase = Connection::Phase::kProof;
  return write(connection);
}

Verdict Server::Loop::judge(const Hello& hello) const {
  if (hello.generation != options_.generation)
    return Verdict::kWrongGeneration;
  if (hello.world != roster_.world() || hello.rank >= roster_.world())
    return Verdict::kWrongWorld;
  if (roster_.of(hello.rank) != Presence::kAbsent)
    return Verdict::kRankTaken;
  return Verdict::kWelcome;
}

bool Server::Loop::take_proof(Connection& connection) {
  const std::string nonce = connection.nonce.substr(0, kNonceSize);
  Digest given{};
  std::copy(connection.nonce.begin() + kNonceSize, connection.nonce.end(), given.begin());
  const Digest right = proof(options_.token, Side::kRank, connection.hello, nonce);
  Welcome welcome{Verdict::kWrongToken, options_.program_port};
  if (equal_in_constant_time(given, right))
    welcome.verdict = judge(connection.hello);
  queue(connection, encode(welcome));
  if (welcome.verdict == Verdict::kWelcome)
    admit(connection);
  else
    connection.closing = true;
  return write(connection);
}

void Server::Loop::admit(Connection& connection) {
  connection.phase = Connection::Phase::kOpen;
  connection.rank = connection.hello.rank;
  connection.deadline = TimePoint::max();
  strangers_.remove(connection.fd.get());
  by_rank_[connection.rank] = connection.fd.get();
  roster_.mark(connection.rank, Presence::kHere);
  for (const std::string& news : lost_news_)
    queue(connection, encode(Header{static_cast<std::uint32_t>(news.size()), 0,
                                    static_cast<std::uint8_t>(News::kLost)}) +
                          news);
}

void Server::Loop::execute(Connection& connection, std::uint32_t id, Request& request,
                           TimePoint now) {
  const std::uint32_t rank = connection.rank;
  const auto run = [&](auto& record) {
    using Record = std::remove_reference_t<decltype(record)>;
    if constexpr (std::is_same_v<Record, Introduce>) {
      if (record.node.size() <= kMaxNodeName && options_.nodes[rank].empty())
        roster_.name(rank, std::move(record.node));
      answers_.push_back(answer({rank, id, 0, {}}));
    } else if constexpr (std::is_same_v<Record, Goodbye>) {
      gone(rank, Presence::kLeft);
      answers_.push_back(answer({rank, id, 0, {}}));
    } else if constexpr (std::is_same_v<Record, Collective>) {
      collectives_.handle(rank, id, std::move(record), now, answers_);
    } else if constexpr (std::is_same_v<Record, GetKey> || std::is_same_v<Record, WaitKeys>) {
      keys_.handle(rank, id, std::move(record), now, answers_);
    } else {
      keys_.handle(rank, id, std::move(record), answers_);
    }
  };
  std::visit(run, request);
}

void Server::Loop::gone(std::uint32_t rank, Presence presence) {
  roster_.mark(rank, presence);
  keys_.forget(rank);
  const std::string who = roster_.describe({rank});
  if (presence == Presence::kLeft) {
    collectives_.rank_gone(rank,
                           {who + " called step_close() and will not come",
                            "every rank must call the same collectives before step_close()"},
                           answers_);
    return;
  }
  const Error error{who + " was lost: its connection ended without step_close()",
                    "look for the first error of that rank; the step cannot go on without it"};
  collectives_.rank_gone(rank, error, answers_);
  keys_.fail_waiters(error, answers_);
  std::string news = encode_number(rank) + error.message + "\n" + error.hint;
  tell_all(News::kLost, news);
  lost_news_.push_back(std::move(news));
}

void Server::Loop::tell_all(News news, const std::string& body) {
  const auto shared = std::make_shared<const std::string>(body);
  for (std::uint32_t rank = 0; rank < roster_.world(); ++rank)
    if (by_rank_[rank] >= 0)
      answers_.push_back({rank, 0, static_cast<std::uint8_t>(news), shared});
}

} // namespace dist_train
