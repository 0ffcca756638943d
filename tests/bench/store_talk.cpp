// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/store_talk.h"

#include "libstep/store/wire.h"

#include <utility>

namespace dist_train {
namespace {

// c10d's requests that a client needs here, by their number on the wire.
enum C10d : char { kValidate = 0, kSet = 1, kAdd = 4, kWait = 6, kPing = 13 };

template <typename Number>
std::string native(Number number) { // c10d sends numbers as they lie in memory
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string counted_text(std::string_view text) {
  return native(static_cast<std::uint64_t>(text.size())) + std::string(text);
}

} // namespace

Turn StepTalk::ask(const std::string& body, std::uint8_t kind, std::size_t answer) {
  const Header header{static_cast<std::uint32_t>(body.size()), static_cast<std::uint32_t>(stage_),
                      kind};
  return {encode(header) + body, kHeaderSize + answer};
}

std::optional<Turn> StepTalk::next(std::string_view heard) {
  const auto request = [&](const Request& what, std::size_t answer) {
    return ask(encode_body(what), kind_of(what), answer);
  };
  const auto answered = [&] {
    const auto header = decode_header(heard.substr(0, kHeaderSize));
    return header && header->kind == STEP_OK;
  };
  // The server is rank 0 of the world, so the clients are ranks 1 to `clients`.
  switch (stage_++) {
  case 0:
    hello_ = {kProtocolVersion,
              number_ + 1,
              clients_ + 1,
              1,
              std::string(kNonceSize, static_cast<char>('a' + number_ % 26)),
              {}};
    hello_.proof = as_text(prove(token_, hello_));
    return Turn{encode(hello_), kWelcomeSize};
  case 1: {
    const auto welcome = decode_welcome(heard);
    if (!welcome || welcome->verdict != Verdict::kWelcome ||
        !proves(welcome->proof, prove(token_, std::exchange(hello_, {}), *welcome)))
      return std::nullopt;
    return request(AddKey{"count", 1}, 8);
  }
  case 2: {
    const auto sum = decode_number(heard.substr(kHeaderSize));
    if (!answered() || !sum)
      return std::nullopt;
    Turn turn;
    if (*sum == clients_)
      turn = request(SetKey{"go", "now"}, 0);
    else
      ++stage_, turn = request(WaitKeys{{"go"}, -1}, 0);
    turn.counted = true;
    return turn;
  }
  case 3:
    return answered() ? std::optional(request(WaitKeys{{"go"}, -1}, 0)) : std::nullopt;
  default:
    return answered() ? std::optional(Turn{}) : std::nullopt;
  }
}

std::optional<Turn> C10dTalk::next(std::string_view heard) {
  constexpr std::uint32_t kMagic = 0x3C85F7CE;
  constexpr std::uint32_t kEcho = 0x1234;
  const auto wait = std::string(1, kWait) + native(std::uint64_t{1}) + counted_text("/go");
  const auto add = [](std::string_view key) {
    return Turn{std::string(1, kAdd) + counted_text(key) + native(std::int64_t{1}),
                sizeof(std::int64_t)};
  };
  switch (stage_++) {
  case 0:
    return Turn{std::string(1, kValidate) + native(kMagic) + std::string(1, kPing) + native(kEcho),
                sizeof kEcho};
  case 1:
    return heard == native(kEcho) ? std::optional(add("init/")) : std::nullopt;
  case 2:
    return add("/count");
  case 3: {
    const bool last = heard == native(std::int64_t{clients_});
    // A set is not answered, so the client waits in the same breath.
    return Turn{(last ? std::string(1, kSet) + counted_text("/go") + counted_text("now") : "") +
                    wait,
                1, true};
  }
  default:
    return heard == std::string_view("\0", 1) ? std::optional(Turn{}) : std::nullopt;
  }
}

} // namespace dist_train
