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
  Hello hello{
      kProtocolVersion, 7, 8, 9, std::string(kNonceSize, 'n'), std::string(kProofSize, 'p')};
  const std::string bytes = encode(hello);
  ASSERT_EQ(bytes.size(), kHelloSize);
  const auto back = decode_hello(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rank, 7u);
  EXPECT_EQ(back->world, 8u);
  EXPECT_EQ(back->generation, 9u);
  EXPECT_EQ(back->nonce, hello.nonce);
  EXPECT_EQ(back->proof, hello.proof);
  EXPECT_FALSE(decode_hello(bytes + "x"));
  EXPECT_FALSE(decode_hello("stop" + bytes.substr(4)));

  const Welcome welcome{kProtocolVersion, Verdict::kRankTaken, 65535, std::string(kProofSize, 'p')};
  ASSERT_EQ(encode(welcome).size(), kWelcomeSize);
  EXPECT_EQ(decode_welcome(encode(welcome))->verdict, Verdict::kRankTaken);
  EXPECT_EQ(decode_welcome(encode(welcome))->program_port, 65535);
  EXPECT_EQ(decode_welcome(encode(welcome))->proof, welcome.proof);
  EXPECT_FALSE(decode_welcome("ab"));

  // What other versions can rely on.
  EXPECT_EQ(bytes.substr(0, kOpeningSize), "STEP\x03");
  EXPECT_EQ(decode_opening(bytes.substr(0, kOpeningSize)), kProtocolVersion);
  EXPECT_EQ(decode_opening(encode(welcome).substr(0, kOpeningSize)), kProtocolVersion);
  EXPECT_EQ(decode_opening("STEP\x4d"), 77);
  EXPECT_FALSE(decode_opening("STEM\x03"));
  EXPECT_FALSE(decode_opening("STEP"));
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

// Expected values: Python's hmac module.
TEST(Wire, ProofsCoverAllBeforeThem) {
  const Hello hello{kProtocolVersion, 1, 2, 3, std::string(kNonceSize, 'n'), {}};
  const Welcome welcome{kProtocolVersion, Verdict::kRankTaken, 23000, {}};
  const Digest of_rank = prove("token", hello);
  const Digest of_store = prove("token", hello, welcome);
  EXPECT_EQ(to_hex(as_text(of_rank)),
            "6556693dc231cf2753bc9e54b8c9aecd24723559224ae5f355e5a2eeb4c2c844");
  EXPECT_EQ(to_hex(as_text(of_store)),
            "b08a976ec8254c56c62070929293ba7fe67d2812c094152de7ce0aba64bfadbc");
  EXPECT_TRUE(proves(as_text(of_rank), of_rank));
  EXPECT_FALSE(proves(as_text(of_store), of_rank));
  EXPECT_FALSE(proves(as_text(of_rank).substr(1), of_rank));
  EXPECT_FALSE(proves("", of_rank));

  const auto differs = [&](auto change) {
    Hello other = hello;
    change(other);
    return prove("token", other) != of_rank && prove("token", other, welcome) != of_store;
  };
  EXPECT_NE(prove("other", hello), of_rank);
  EXPECT_TRUE(differs([](Hello& it) { it.version = 4; }));
  EXPECT_TRUE(differs([](Hello& it) { it.rank = 0; }));
  EXPECT_TRUE(differs([](Hello& it) { it.world = 3; }));
  EXPECT_TRUE(differs([](Hello& it) { it.generation = 2; }));
  EXPECT_TRUE(differs([](Hello& it) { it.nonce[0] = 'm'; }));
  Welcome other = welcome;
  other.verdict = Verdict::kWelcome;
  EXPECT_NE(prove("token", hello, other), of_store);
  other = welcome;
  other.program_port = 1;
  EXPECT_NE(prove("token", hello, other), of_store);
}

} // namespace
} // namespace dist_train
