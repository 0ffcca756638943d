// SPDX-License-Identifier: BSD-3-Clause
// Blocks and frames: there and back, and every kind of damage is seen.
#include "libstep/store/wire.h"

#include <random>

#include <gtest/gtest.h>

namespace dist_train {
namespace {

std::vector<Request> samples() {
  return {Introduce{"node01"},
          SetKey{"k", std::string("a\0b", 3)},
          GetKey{"k", 1u << 30, -1},
          WaitKeys{{"a", "", "c"}, 250},
          AddKey{"n", INT64_MIN},
          CompareAndSet{"k", true, "old", "new"},
          DeleteKey{"k"},
          CountKeys{},
          Collective{UINT64_MAX, Pattern::kGather, 3, 5, "hello", 1000},
          Goodbye{}};
}

TEST(Wire, RequestsComeBackEqual) {
  for (const Request& request : samples()) {
    const std::string body = encode_body(request);
    const auto back = decode_request(kind_of(request), body);
    ASSERT_TRUE(back) << request.index();
    EXPECT_EQ(back->index(), request.index());
    EXPECT_EQ(encode_body(*back), body);
  }
  const auto back = decode_request(kind_of(Collective{}), encode_body(samples()[8]));
  const auto& collective = std::get<Collective>(back.value());
  EXPECT_EQ(collective.number, UINT64_MAX);
  EXPECT_EQ(collective.pattern, Pattern::kGather);
  EXPECT_EQ(collective.data, "hello");
  EXPECT_EQ(std::get<AddKey>(*decode_request(kind_of(AddKey{}), encode_body(samples()[4]))).delta,
            INT64_MIN);
}

TEST(Wire, CutOrLengthenedRequestsAreRefused) {
  for (const Request& request : samples()) {
    const std::string body = encode_body(request);
    for (std::size_t length = 0; length < body.size(); ++length)
      EXPECT_FALSE(decode_request(kind_of(request), body.substr(0, length)));
    EXPECT_FALSE(decode_request(kind_of(request), body + "x"));
  }
  EXPECT_FALSE(decode_request(static_cast<std::uint8_t>(samples().size()), ""));
  EXPECT_FALSE(decode_request(255, ""));
}

TEST(Wire, RandomBytesNeitherCrashNorGrow) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes)
      c = static_cast<char>(random());
    (void)decode_request(static_cast<std::uint8_t>(random() % 12), bytes);
    (void)decode_header(bytes.substr(0, kHeaderSize));
    (void)decode_hello(bytes);
  }
}

TEST(Wire, HandshakeBlocksHaveFixedSizes) {
  Hello hello{kProtocolVersion, 7, 8, 9, std::string(kNonceSize, 'n')};
  const std::string bytes = encode(hello);
  ASSERT_EQ(bytes.size(), kHelloSize);
  const auto back = decode_hello(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rank, 7u);
  EXPECT_EQ(back->world, 8u);
  EXPECT_EQ(back->generation, 9u);
  EXPECT_EQ(back->nonce, hello.nonce);
  EXPECT_FALSE(decode_hello(bytes + "x"));
  EXPECT_FALSE(decode_hello("stop" + bytes.substr(4)));

  const Challenge challenge{kProtocolVersion, Verdict::kWrongVersion, std::string(kNonceSize, 'm'),
                            std::string(32, 'p')};
  ASSERT_EQ(encode(challenge).size(), kChallengeSize);
  EXPECT_EQ(decode_challenge(encode(challenge))->proof, challenge.proof);
  EXPECT_EQ(decode_challenge(encode(challenge))->verdict, Verdict::kWrongVersion);
  ASSERT_EQ(encode(Welcome{}).size(), kWelcomeSize);
  EXPECT_EQ(decode_welcome(encode(Welcome{Verdict::kRankTaken, 65535}))->program_port, 65535);
  EXPECT_FALSE(decode_welcome("ab"));
}

TEST(Wire, HeadersAreBounded) {
  const Header header{kMaxBody, 5, 6};
  ASSERT_EQ(encode(header).size(), kHeaderSize);
  EXPECT_EQ(decode_header(encode(header))->length, kMaxBody);
  EXPECT_EQ(decode_header(encode(header))->id, 5u);
  EXPECT_FALSE(decode_header(encode(Header{kMaxBody + 1, 5, 6})));
  std::string padded = encode(header);
  padded.back() = 1; // reserved for later, must be zero now
  EXPECT_FALSE(decode_header(padded));
}

TEST(Wire, ProofsDependOnAllTheyShould) {
  const Hello hello{kProtocolVersion, 1, 2, 1, std::string(kNonceSize, 'n')};
  const Digest right = proof("token", Side::kRank, hello, "m");
  EXPECT_EQ(right, proof("token", Side::kRank, hello, "m"));
  EXPECT_NE(right, proof("token", Side::kStore, hello, "m"));
  EXPECT_NE(right, proof("other", Side::kRank, hello, "m"));
  EXPECT_NE(right, proof("token", Side::kRank, hello, "o"));
  Hello other = hello;
  other.rank = 0;
  EXPECT_NE(right, proof("token", Side::kRank, other, "m"));
}

} // namespace
} // namespace dist_train
