// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/srun_request.h"

#include "libstep/core/sha256.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::string_view kRequestMagic{"dtQ\1", 4}; // the last byte is the version
constexpr std::string_view kAnswerMagic{"dtq\1", 4};
constexpr std::size_t kMacSize = sizeof(Digest);

std::string u16(std::uint16_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
}

std::uint16_t u16_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[at]) << 8 |
                                    static_cast<unsigned char>(bytes[at + 1]));
}

std::string signed_message(std::string bytes, std::size_t size, std::string_view token,
                           std::string_view more) {
  bytes.resize(size - kMacSize);
  const Digest mac = hmac_sha256(token, bytes + std::string(more));
  return bytes + std::string(as_text(mac));
}

bool authentic(std::string_view bytes, std::size_t size, std::string_view magic,
               std::string_view token, std::string_view more) {
  if (bytes.size() != size || !bytes.starts_with(magic))
    return false;
  const auto body = bytes.substr(0, size - kMacSize);
  Digest given{};
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(body.size()), bytes.end(), given.begin());
  return equal_in_constant_time(given, hmac_sha256(token, std::string(body) + std::string(more)));
}

std::string_view nonce_of(const SrunRequest& request) {
  return {request.nonce.data(), request.nonce.size()};
}

} // namespace

bool begins_srun_request(std::string_view bytes) { return bytes.starts_with(kRequestMagic); }

std::string encode(const SrunRequest& request, std::string_view token) {
  return signed_message(std::string(kRequestMagic) + u16(static_cast<std::uint16_t>(request.wish)) +
                            std::string(nonce_of(request)),
                        kSrunRequestSize, token, "");
}

std::optional<SrunRequest> decode_srun_request(std::string_view bytes, std::string_view token) {
  if (!authentic(bytes, kSrunRequestSize, kRequestMagic, token, ""))
    return std::nullopt;
  SrunRequest request;
  request.wish = static_cast<SrunWish>(u16_at(bytes, 4));
  std::copy_n(bytes.begin() + 6, request.nonce.size(), request.nonce.begin());
  return request;
}

std::string encode(const SrunAnswer& answer, std::string_view token, const SrunRequest& request) {
  return signed_message(std::string(kAnswerMagic) + u16(answer.done) +
                            answer.text.substr(0, kMaxSrunText),
                        kSrunAnswerSize, token, nonce_of(request));
}

std::optional<SrunAnswer> decode_srun_answer(std::string_view bytes, std::string_view token,
                                             const SrunRequest& request) {
  if (!authentic(bytes, kSrunAnswerSize, kAnswerMagic, token, nonce_of(request)))
    return std::nullopt;
  const auto text = bytes.substr(6, kMaxSrunText);
  return SrunAnswer{u16_at(bytes, 4) != 0, std::string(text.substr(0, text.find('\0')))};
}

} // namespace dist_train
