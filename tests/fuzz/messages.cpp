// SPDX-License-Identifier: BSD-3-Clause
// What tasks and srun say to each other, from one who knows the step's token: the code over the
// bytes is made right, so that everything behind it is reached. Input: whether it is a report or an
// answer, then pieces that are put into a message of zeros, each after a gap.
#include "libstep/core/sha256.h"
#include "spank/broker_messages.h"
#include "tests/fuzz/check.h"

#include <cstring>
#include <fuzzer/FuzzedDataProvider.h>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

constexpr Token kToken{'t', 'o', 'k', 'e', 'n'};
constexpr std::size_t kMac = sizeof(Digest);

std::string sparse(FuzzedDataProvider& input, std::string bytes, std::size_t size) {
  bytes.resize(size);
  for (std::size_t at = 0; at < size && input.remaining_bytes() > 0;) {
    auto piece = input.ConsumeRandomLengthString(size - at);
    std::copy(piece.begin(), piece.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    at += piece.size() + input.ConsumeIntegralInRange<std::size_t>(0, 512);
  }
  return bytes;
}

std::string with_code(std::string bytes, std::string_view more) {
  auto mac = hmac_sha256({kToken.data(), kToken.size()}, bytes + std::string(more));
  return bytes.append(as_text(mac));
}

void check_report(FuzzedDataProvider& input) {
  static const std::string head = encode(Report{}, kToken)->substr(0, 4);
  bool ours = input.ConsumeBool();
  auto bytes = with_code(sparse(input, ours ? head : "", kReportSize - kMac), "");
  auto report = decode_report(bytes, kToken);
  require(report.has_value() == bytes.starts_with(head), "a report begins with its mark");
  if (!report)
    return;
  auto travelled = encode(*report, kToken);
  require(travelled.has_value(), "what came can be sent on");
  auto again = decode_report(*travelled, kToken);
  require(again && encode(*again, kToken) == travelled, "a report comes back equal");
  bytes[input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1)] ^= 1;
  require(!decode_report(bytes, kToken), "a changed report is refused");
}

void check_answer(FuzzedDataProvider& input) {
  static const std::string head = encode(Answer{}, kToken, Nonce{}).substr(0, 4);
  const Nonce nonce{'n'};
  bool ours = input.ConsumeBool();
  auto layout = input.ConsumeRandomLengthString(64);
  std::string start = ours ? head : "";
  if (ours && input.ConsumeBool())
    start += std::string(3, '\0') + static_cast<char>(layout.size());
  auto bytes = sparse(input, start, kAnswerSize - kMac);
  bytes = with_code(bytes, std::string(as_text(sha256(layout))) + std::string(nonce.data(), nonce.size())) + layout;
  auto length = answer_length(bytes.substr(0, kAnswerSize));
  require(!length || *length <= kAnswerSize + kMaxLayoutSize, "an answer is bounded");
  auto answer = decode_answer(bytes, kToken, nonce);
  require(answer.has_value() == (length == bytes.size()), "an answer has the length it says");
  if (!answer)
    return;
  auto travelled = encode(*answer, kToken, nonce);
  auto again = decode_answer(travelled, kToken, nonce);
  require(again && encode(*again, kToken, nonce) == travelled, "an answer comes back equal");
  require(!decode_answer(travelled, kToken, Nonce{'m'}), "an answer to another report is refused");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  if (input.ConsumeBool())
    check_report(input);
  else
    check_answer(input);
  return 0;
}
