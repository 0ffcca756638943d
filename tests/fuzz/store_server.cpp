// SPDX-License-Identifier: BSD-3-Clause
// The store's server as a whole: handshakes, frames, streams that end, fill up or come in pieces,
// of rank 0, of ranks that know the token and of strangers that do not. Input: the world's size,
// then what happens each time the server waits.
#include "libstep/store/server_loop.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/kernel.h"

#include <fuzzer/FuzzedDataProvider.h>
#include <set>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr std::size_t kMostStreams = 12;

// What the target knows of a stream beyond its bytes.
struct Far {
  int fd;
  bool knows_token = false;           // may have said the right proof
  std::multiset<std::uint32_t> asked; // ids that may be answered
  bool said_anything = false;         // bytes of no known meaning: any id may be answered
};

class Play {
public:
  Play(FuzzedDataProvider& input, Server::Loop& loop, std::uint32_t world)
      : input_(input), loop_(loop), world_(world) {}

  void add_own(int fd) { far_.push_back({fd, true, {}, false}); }

  // One thing that happens.
  void next() {
    if (input_.remaining_bytes() == 0) {
      if (!std::exchange(stopping_, true))
        loop_.ask_to_stop(0);
      require(++last_turns_ < 20, "the server ends when asked to");
      return;
    }
    auto what = input_.ConsumeIntegralInRange<int>(0, 15);
    if (what == 0 && far_.size() < kMostStreams)
      return connect();
    auto& far = far_[input_.ConsumeIntegralInRange<std::size_t>(0, far_.size() - 1)];
    auto& stream = kernel.streams.at(far.fd);
    switch (what) {
    case 1:
      return say_anything(far, stream);
    case 2:
      stream.ended = true;
      return;
    case 3:
      stream.room = input_.ConsumeIntegralInRange<std::size_t>(0, 200);
      return;
    case 4:
      stream.room = SIZE_MAX;
      stream.piece = input_.ConsumeIntegralInRange<std::size_t>(1, 40);
      return;
    case 5:
      kernel.clock_ms += input_.ConsumeIntegralInRange(0, 15'000);
      return;
    default:
      if (far.knows_token)
        ask(far, stream);
    }
  }

  void check() {
    for (const auto& far : far_)
      check_stream(far, kernel.streams.at(far.fd));
  }

private:
  void connect() {
    int fd = kFirstStream + static_cast<int>(far_.size());
    far_.push_back({fd, false, {}, false});
    kernel.streams[fd];
    kernel.arriving.push_back(fd);
    Hello hello;
    hello.rank = input_.ConsumeIntegralInRange<std::uint32_t>(0, world_);
    hello.world = input_.ConsumeIntegralInRange<int>(0, 15) == 15 ? world_ + 1 : world_;
    hello.generation = input_.ConsumeIntegralInRange<int>(0, 15) == 15 ? 2 : 1;
    hello.version = input_.ConsumeIntegralInRange<int>(0, 15) == 15
                        ? input_.ConsumeIntegral<std::uint8_t>()
                        : kProtocolVersion;
    hello.nonce.assign(kNonceSize, 'n');
    if (input_.ConsumeIntegralInRange<int>(0, 7) == 7)
      return; // says nothing yet
    auto& far = far_.back();
    far.knows_token = input_.ConsumeIntegralInRange<int>(0, 7) != 7;
    hello.proof = as_text(prove(far.knows_token ? kToken : "", hello));
    kernel.streams[fd].to_server = encode(hello);
  }

  void say_anything(Far& far, Stream& stream) {
    far.said_anything = true;
    stream.to_server += input_.ConsumeRandomLengthString(80);
  }

  std::string key() {
    return std::string(1, static_cast<char>('a' + input_.ConsumeIntegralInRange(0, 3)));
  }

  Request request() {
    auto wait = input_.ConsumeIntegralInRange<std::int64_t>(-1, 3) * 1000;
    switch (input_.ConsumeIntegralInRange<int>(0, 9)) {
    case 0:
      return Introduce{input_.ConsumeRandomLengthString(16)};
    case 1:
      return SetKey{key(), input_.ConsumeRandomLengthString(40)};
    case 2:
      return GetKey{key(), input_.ConsumeIntegralInRange<std::uint64_t>(0, 40), wait};
    case 3:
      return WaitKeys{{key(), key()}, wait};
    case 4:
      return AddKey{key(), input_.ConsumeIntegral<std::int64_t>()};
    case 5:
      return CompareAndSet{key(), input_.ConsumeBool(), "x", "y"};
    case 6:
      return DeleteKey{key()};
    case 7:
      return CountKeys{};
    case 8: {
      auto data = input_.ConsumeRandomLengthString(8);
      return Collective{input_.ConsumeIntegralInRange<std::uint64_t>(0, 3),
                        static_cast<Pattern>(input_.ConsumeIntegralInRange<int>(0, 2)),
                        0,
                        data.size(),
                        data,
                        wait};
    }
    default:
      return Goodbye{};
    }
  }

  void ask(Far& far, Stream& stream) {
    auto id = input_.ConsumeIntegralInRange<std::uint32_t>(1, 200);
    auto asked = request();
    auto body = encode_body(asked);
    far.asked.insert(id);
    stream.to_server +=
        encode(Header{static_cast<std::uint32_t>(body.size()), id, kind_of(asked)}) + body;
  }

  // What a stream was sent is what the protocol allows, from the first byte to where it ends.
  void check_stream(const Far& far, const Stream& stream) {
    std::string_view bytes = stream.from_server;
    if (far.fd != kFirstStream) {
      if (bytes.size() < kWelcomeSize)
        return;
      auto welcome = decode_welcome(bytes.substr(0, kWelcomeSize));
      require(welcome.has_value(), "a greeting gets a verdict");
      require(welcome->verdict != Verdict::kWelcome || far.knows_token,
              "nobody without the token is let in");
      bytes.remove_prefix(kWelcomeSize);
      require(welcome->verdict == Verdict::kWelcome || bytes.empty(),
              "who is not let in is told nothing");
    }
    auto asked = far.asked;
    while (bytes.size() >= kHeaderSize) {
      auto header = decode_header(bytes.substr(0, kHeaderSize));
      require(header.has_value(), "an answer has a header");
      require(header->kind <= STEP_ERR_INTERNAL, "an answer is of a kind");
      if (header->id != 0 && !far.said_anything) {
        auto found = asked.find(header->id);
        require(found != asked.end(), "what was asked is answered once");
        asked.erase(found);
      }
      if (bytes.size() < kHeaderSize + header->length)
        return;
      bytes.remove_prefix(kHeaderSize + header->length);
    }
  }

  FuzzedDataProvider& input_;
  Server::Loop& loop_;
  std::uint32_t world_;
  std::vector<Far> far_;
  bool stopping_ = false;
  int last_turns_ = 0;
};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  auto world = input.ConsumeIntegralInRange<std::uint32_t>(1, 5);
  ServerOptions options;
  options.nodes.assign(world, input.ConsumeBool() ? "node" : "");
  options.token = kToken;
  options.program_port = 23000;
  options.listener = Socket(kListener);
  kernel.streams[kFirstStream];
  Server::Loop loop(std::move(options));
  require(bool(loop.prepare(Socket(kFirstStream))), "the server is ready");
  Play play(input, loop, world);
  play.add_own(kFirstStream);
  kernel.next = [&] { play.next(); };
  loop.run();
  play.check();
  kernel = {}; // what a run allocates it frees, else each is searched for leaks
  return 0;
}
