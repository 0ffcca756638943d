// SPDX-License-Identifier: BSD-3-Clause
// What a running program asks of srun, which has Slurm's commands and credentials where the task's
// container may have neither: one request and one answer on a connection to srun's rendezvous. Pure
// values and their bytes, used by both ends.
//
// Both are authenticated with the step's token, which never travels; the answer also covers the
// request's nonce. A request that is played back can only do again what the step asked for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dist_train {

enum class SrunWish : std::uint16_t {
  kRequeue = 1,  // of the job; the answer's text is "" or what scontrol said
  kTimeLeft = 2, // of the job; the answer's text is squeue's
};

struct SrunRequest {
  SrunWish wish = SrunWish::kRequeue;
  std::array<char, 16> nonce{};
};

struct SrunAnswer {
  bool done = false;
  std::string text; // cut to kMaxSrunText bytes
};

inline constexpr std::size_t kSrunRequestSize = 64;
inline constexpr std::size_t kSrunAnswerSize = 512;
inline constexpr std::size_t kMaxSrunText = 464;

// Whether bytes, the first four or more of a message, begin a request rather than anything else
// that srun is told.
bool begins_srun_request(std::string_view bytes);

// token: its 32 hexadecimal digits.
std::string encode(const SrunRequest& request, std::string_view token);
// Nothing when the bytes are no request, or not of this step.
std::optional<SrunRequest> decode_srun_request(std::string_view bytes, std::string_view token);

std::string encode(const SrunAnswer& answer, std::string_view token, const SrunRequest& request);
std::optional<SrunAnswer> decode_srun_answer(std::string_view bytes, std::string_view token,
                                             const SrunRequest& request);

} // namespace dist_train
