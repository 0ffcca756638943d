// SPDX-License-Identifier: BSD-3-Clause
// What travels between a rank and the store: one block each way, then frames.
//
//   rank -> store   Hello    magic, version, rank, world, generation, nonce, and a proof that the
//                            rank knows the token
//   store -> rank   Welcome  magic, version, verdict, port for the program's own rank 0, and a
//                            proof that the store knows the token
//   then frames     length, id, kind (12 bytes) and a body; the rank's id comes back in the answer.
//
// The token is one step's alone and never travels. A rank's proof covers its seat and generation,
// and a seat is taken once: a Hello played back opens nothing. The store's proof covers the rank's
// nonce. The handshake tells friend from foe; what follows is neither encrypted nor signed. Numbers
// are little-endian. Pure functions, bounded by kMaxBody.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libstep/core/sha256.h"
#include "libstep/include/libstep/step.h"

namespace dist_train {

constexpr std::uint8_t kProtocolVersion = 3;
constexpr std::size_t kNonceSize = 16;
constexpr std::size_t kProofSize = 32;
// Two values (compare-and-set) and some room; a frame that claims more is a protocol error.
constexpr std::size_t kMaxBody = 2 * std::size_t{STEP_VALUE_MAX} + (1u << 20);
constexpr std::size_t kMaxNodeName = 255;
constexpr std::size_t kMaxReason = 255; // of a stop

// Why a store does not let a rank in, or does.
enum class Verdict : std::uint8_t {
  kWelcome = 0,
  kWrongVersion = 1,
  kWrongToken = 2,
  kWrongWorld = 3,      // the rank or the world size does not fit the store's step
  kRankTaken = 4,       // this rank is here already
  kWrongGeneration = 5, // the store serves an earlier or later step_open() of these processes
};

struct Hello {
  std::uint8_t version = kProtocolVersion;
  std::uint32_t rank = 0;
  std::uint32_t world = 0;
  std::uint32_t generation = 0; // how many times this process called step_open(), from 1
  std::string nonce;            // kNonceSize bytes
  std::string proof;            // kProofSize bytes; likewise below
};
struct Welcome {
  std::uint8_t version = kProtocolVersion;
  Verdict verdict = Verdict::kWelcome;
  std::uint16_t program_port = 0; // 0: none held
  std::string proof;              // zeros for a rank that proved nothing
};

// Of either block, the same in all versions: magic and version.
constexpr std::size_t kOpeningSize = 4 + 1;
constexpr std::size_t kHelloSize = kOpeningSize + 3 * 4 + kNonceSize + kProofSize;
constexpr std::size_t kWelcomeSize = kOpeningSize + 1 + 2 + kProofSize;

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
// The version of the block that begins with these kOpeningSize bytes; nothing when it is not ours.
std::optional<std::uint8_t> decode_opening(std::string_view bytes);
std::optional<Hello> decode_hello(std::string_view bytes);
std::optional<Welcome> decode_welcome(std::string_view bytes);

// Both cover all that comes before them, the store's also the rank's Hello; they differ by side, so
// that neither side's can be played back to the other.
Digest prove(std::string_view token, const Hello& hello);
Digest prove(std::string_view token, const Hello& hello, const Welcome& welcome);
// Whether this is what the block should carry, in constant time.
bool proves(std::string_view given, const Digest& right);

// Requests. `wait_ms` is how long the store may hold the answer back; negative: as long as it
// takes.
struct Introduce {
  std::string node; // name of the rank's node, for messages to people
};
struct SetKey {
  std::string key, value;
};
struct GetKey {
  std::string key;
  std::uint64_t capacity = 0;
  std::int64_t wait_ms = 0;
};
struct WaitKeys {
  std::vector<std::string> keys;
  std::int64_t wait_ms = 0;
};
struct AddKey {
  std::string key;
  std::int64_t delta = 0;
};
struct CompareAndSet {
  std::string key;
  bool missing = false; // expects the key to be missing
  std::string expected, desired;
};
struct DeleteKey {
  std::string key;
};
struct CountKeys {};
enum class Pattern : std::uint8_t { kBarrier = 0, kBroadcast = 1, kGather = 2 };
struct Collective {
  std::uint64_t number = 0; // the how-manieth collective of this rank
  Pattern pattern = Pattern::kBarrier;
  std::uint32_t root = 0;   // of a broadcast
  std::uint64_t length = 0; // of each rank's part
  std::string data;         // empty where a rank contributes nothing
  std::int64_t wait_ms = 0;
};
struct Goodbye {};
// An iteration of the program's loop; kNoIteration before the first.
constexpr std::int64_t kNoIteration = INT64_MIN;
// A sign of life. The answer is that of rank 0's own last one, as a number.
struct Progress {
  std::int64_t iteration = kNoIteration;
};
// Asks that all ranks stop at one iteration; see stop_agreement.h.
struct StopRequest {
  std::string reason;
};
// A rank's answer to News::kStopAsked. Itself answered by nothing but News::kStopAt.
struct StopReport {
  std::int64_t passed = kNoIteration; // the last iteration that it was told to go on after
};
struct TimeLeft {}; // of the job: milliseconds, or kNoTimeLimit
constexpr std::int64_t kNoTimeLimit = INT64_MAX;

using Request =
    std::variant<Introduce, SetKey, GetKey, WaitKeys, AddKey, CompareAndSet, DeleteKey, CountKeys,
                 Collective, Goodbye, Progress, StopRequest, StopReport, TimeLeft>;

// Frames. A request's kind is its index in the variant; an answer's kind is a step_err_t, with the
// value or, on failure, the text for a person as body. Frames of id 0 are news nobody asked for.
constexpr std::size_t kHeaderSize = 12;
struct Header {
  std::uint32_t length = 0; // of the body
  std::uint32_t id = 0;
  std::uint8_t kind = 0;
};
enum class News : std::uint8_t {
  kLost = 1,      // body: rank (8 bytes) and text
  kClosing = 2,   // rank 0 called step_close() and stops serving
  kStopAsked = 3, // body: why
  kStopAt = 4,    // body: iteration (8 bytes) and why
};

std::string encode(const Header& header);
std::optional<Header> decode_header(std::string_view bytes); // nothing when malformed or too long

std::uint8_t kind_of(const Request& request);
std::string encode_body(const Request& request);
std::optional<Request> decode_request(std::uint8_t kind, std::string_view body);

std::string encode_number(std::uint64_t value); // 8 bytes
std::optional<std::uint64_t> decode_number(std::string_view bytes);

} // namespace dist_train
