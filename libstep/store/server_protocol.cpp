// SPDX-License-Identifier: BSD-3-Clause
// The server's side of the protocol: who may come in, and what each request does.
#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include <sys/random.h>

#include "libstep/store/server_loop.h"

namespace dist_train {

std::optional<std::size_t> Server::Loop::consume(Connection& connection, std::string_view bytes,
                                                 TimePoint now) {
  const std::size_t all = bytes.size();
  const auto take = [&](std::size_t count) {
    const auto taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  if (connection.handshake && connection.handshake->nonce.empty() && bytes.size() >= kHelloSize)
    if (!take_hello(connection, take(kHelloSize)))
      return std::nullopt;
  if (connection.handshake && !connection.handshake->nonce.empty() && !connection.closing &&
      bytes.size() >= kProofSize)
    take_proof(connection, take(kProofSize));
  while (!connection.handshake && !connection.closing && bytes.size() >= kHeaderSize) {
    const auto header = decode_header(bytes.substr(0, kHeaderSize));
    if (!header)
      return std::nullopt;
    if (bytes.size() < kHeaderSize + header->length)
      break;
    take(kHeaderSize);
    auto request = decode_request(header->kind, take(header->length));
    if (!request)
      return std::nullopt;
    execute(connection, header->id, *request, now);
  }
  return all - bytes.size();
}

bool Server::Loop::take_hello(Connection& connection, std::string_view bytes) {
  auto hello = decode_hello(bytes);
  std::string nonce(kNonceSize, '\0');
  if (!hello || ::getrandom(nonce.data(), kNonceSize, 0) != static_cast<ssize_t>(kNonceSize))
    return false;
  Challenge challenge;
  if (hello->version != kProtocolVersion) {
    challenge.verdict = Verdict::kWrongVersion;
    connection.closing = true;
  }
  challenge.nonce = nonce;
  challenge.proof = as_text(proof(options_.token, Side::kStore, *hello, nonce));
  queue(connection, encode(challenge));
  connection.handshake->hello = *std::move(hello);
  connection.handshake->nonce = std::move(nonce);
  return true;
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

void Server::Loop::take_proof(Connection& connection, std::string_view bytes) {
  const auto& [deadline, place, hello, nonce] = *connection.handshake;
  Digest given{};
  std::copy(bytes.begin(), bytes.end(), given.begin());
  Welcome welcome{Verdict::kWrongToken, options_.program_port};
  if (equal_in_constant_time(given, proof(options_.token, Side::kRank, hello, nonce)))
    welcome.verdict = judge(hello);
  queue(connection, encode(welcome));
  if (welcome.verdict == Verdict::kWelcome)
    admit(connection);
  else
    connection.closing = true;
}

void Server::Loop::admit(Connection& connection) {
  connection.rank = connection.handshake->hello.rank;
  strangers_.erase(connection.handshake->place);
  connection.handshake.reset();
  by_rank_[connection.rank] = connection.fd.get();
  roster_.mark(connection.rank, Presence::kHere);
  if (!lost_news_.empty())
    queue(connection, encode(Header{static_cast<std::uint32_t>(lost_news_.size()), 0,
                                    static_cast<std::uint8_t>(News::kLost)}) +
                          lost_news_);
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
  // Waiting for losses ends with the first, and when a node dies they come in hundreds.
  if (!lost_news_.empty())
    return;
  lost_news_ = encode_number(rank) + error.message + "\n" + error.hint;
  tell_all(News::kLost, lost_news_);
}

void Server::Loop::tell_all(News news, const std::string& body) {
  const auto shared = std::make_shared<const std::string>(body);
  for (std::uint32_t rank = 0; rank < roster_.world(); ++rank)
    if (by_rank_[rank] >= 0)
      answers_.push_back({rank, 0, static_cast<std::uint8_t>(news), shared});
}

} // namespace dist_train
