// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/srun_request.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";
constexpr std::string_view kOther = "0123456789abcdef0123456789abcdee";

SrunRequest request(char fill) {
  SrunRequest made;
  made.wish = SrunWish::kTimeLeft;
  made.nonce.fill(fill);
  return made;
}

TEST(SrunRequest, ArrivesAsItWasSent) {
  const std::string bytes = encode(request('n'), kToken);
  ASSERT_EQ(bytes.size(), kSrunRequestSize);
  EXPECT_TRUE(begins_srun_request(bytes.substr(0, 4)));
  EXPECT_FALSE(begins_srun_request("dtR\1"));
  EXPECT_FALSE(begins_srun_request("dt"));
  const auto read = decode_srun_request(bytes, kToken);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->wish, SrunWish::kTimeLeft);
  EXPECT_EQ(read->nonce, request('n').nonce);
  EXPECT_EQ(bytes.find(kToken), std::string::npos);
}

TEST(SrunRequest, AnswerArrivesAsItWasSent) {
  const auto bytes = encode(SrunAnswer{true, "1:23:45"}, kToken, request('n'));
  ASSERT_EQ(bytes.size(), kSrunAnswerSize);
  const auto read = decode_srun_answer(bytes, kToken, request('n'));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->done);
  EXPECT_EQ(read->text, "1:23:45");
  const auto longest = encode(SrunAnswer{false, std::string(9999, 'x')}, kToken, request('n'));
  EXPECT_EQ(decode_srun_answer(longest, kToken, request('n'))->text.size(), kMaxSrunText);
}

TEST(SrunRequest, AnotherTokenNonceOrLengthIsRefused) {
  const auto asked = encode(request('n'), kToken);
  EXPECT_FALSE(decode_srun_request(asked, kOther));
  EXPECT_FALSE(decode_srun_request(asked.substr(1), kToken));
  EXPECT_FALSE(decode_srun_request(asked + "x", kToken));
  EXPECT_FALSE(decode_srun_request("", kToken));
  const auto answer = encode(SrunAnswer{true, ""}, kToken, request('n'));
  EXPECT_FALSE(decode_srun_answer(answer, kToken, request('m'))); // an old one, played back
  EXPECT_FALSE(decode_srun_answer(answer, kOther, request('n')));
  EXPECT_FALSE(decode_srun_answer(asked, kToken, request('n')));
}

TEST(SrunRequest, EveryChangedByteIsRefused) {
  const auto asked = encode(request('n'), kToken);
  const auto answer = encode(SrunAnswer{true, "text"}, kToken, request('n'));
  for (std::size_t i = 0; i < answer.size(); ++i) {
    auto changed = answer;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(decode_srun_answer(changed, kToken, request('n'))) << i;
    if (i < asked.size()) {
      changed = asked;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_FALSE(decode_srun_request(changed, kToken)) << i;
    }
  }
}

} // namespace
} // namespace dist_train
