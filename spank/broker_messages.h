// SPDX-License-Identifier: BSD-3-Clause
// What tasks and srun say to each other: one report from a task, one answer to it. Pure values and
// their bytes. Every message is authenticated with the step's token, which itself never travels;
// the answer also covers the report's nonce, so that an old answer does not pass for a new one.
#pragma once

#include "libstep/core/node_facts.h"
#include "libstep/core/rendezvous.h"
#include "libstep/core/report.h"
#include "libstep/core/result.h"
#include "libstep/core/sha256.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dist_train {

using Nonce = std::array<char, 16>;

// 128 bits, the step's secret.
using Token = std::array<char, 16>;
std::string token_text(const Token& token);
std::optional<Token> parse_token(std::string_view text);

// What a task wants to know.
enum class Want : std::uint16_t {
  kNothing, // it knows all; the answer says only that the report arrived
  kMaster,  // rank 0's address and ports
  kLayout,  // that, and which ranks every node has: the answer waits for all nodes
};

// Later versions of the plugin only append to the fields: what an earlier one does not send reads
// as zero or "", and what it does not know it ignores.
struct Report {
  Nonce nonce{};
  Want want = Want::kNothing;
  bool has_row = false; // `row` counts for the table
  StepId id;
  std::uint32_t world_size = 0;
  MappingRow row;                 // its node, rank and local rank count in every report
  std::string node_ranks;         // of the task's node, as a set; does not travel with a failure
  std::string node_list;          // of the step, compressed; "" if too long
  std::optional<Master> master;   // from rank 0; its node is row.node
  std::optional<NodeFacts> facts; // of the task's node, from its first task; node is row.node
  std::optional<Error> failure;   // why the task cannot start
};

enum class Status : std::uint16_t {
  kReady,
  kPending, // ask again
  kFailed,  // the reports contradict each other, or rank 0 cannot start; srun has said why
};

struct Answer {
  Status status = Status::kPending;
  Master master;
  std::uint32_t node_rank = 0;         // of the asking task's node
  std::uint32_t node_count = 0;        // 0 unless the layout was asked for
  std::string note;                    // kPending: nodes that have not come
  std::string layout;                  // may be "" for very large steps
  std::optional<Digest> layout_digest; // of the layout, if it is known: saves encode() the work
};

// Longest texts that travel; longer ones in these members are cut (node_list: left out).
inline constexpr std::size_t kReportSize = 4096;
inline constexpr std::size_t kAnswerSize = 1024; // without the layout
inline constexpr std::size_t kMaxLayoutSize = 4u << 20;

// Nothing when node_ranks is too long to travel.
std::optional<std::string> encode(const Report& report, const Token& token);
// Nothing when the bytes are not a report, or not of this step.
std::optional<Report> decode_report(std::string_view bytes, const Token& token);

std::string encode(const Answer& answer, const Token& token, const Nonce& nonce);
// Length of the whole answer, once its first kAnswerSize bytes are there; nothing if they are none.
std::optional<std::size_t> answer_length(std::string_view head);
std::optional<Answer> decode_answer(std::string_view bytes, const Token& token, const Nonce& nonce);

} // namespace dist_train
