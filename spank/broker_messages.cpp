// SPDX-License-Identifier: BSD-3-Clause
#include "spank/broker_messages.h"

#include "libstep/core/sha256.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::uint32_t kReportMagic = 0x64745201; // "dtR", version 1
constexpr std::uint32_t kAnswerMagic = 0x64744101; // "dtA", version 1
constexpr std::size_t kMacSize = sizeof(Digest);

// Lengths of the text fields.
constexpr std::size_t kName = 256, kAddress = 64, kInterface = 16, kCell = 48, kCores = 192,
                      kRanks = 1536, kNodeList = 512, kNote = 512, kVersion = 16, kHcas = 128,
                      kWarnings = 960;
// A failure stands where the ranks would: who cannot start is not waited for.
constexpr std::size_t kMessage = 768, kHint = 384, kCaret = kRanks - kMessage - kHint;

// Numbers are big-endian; a text fills its field up with zero bytes.
class Writer {
public:
  void u16(std::uint16_t v) {
    bytes_ += static_cast<char>(v >> 8);
    bytes_ += static_cast<char>(v);
  }
  void u32(std::uint32_t v) {
    u16(static_cast<std::uint16_t>(v >> 16));
    u16(static_cast<std::uint16_t>(v));
  }
  void u64(std::uint64_t v) {
    u32(static_cast<std::uint32_t>(v >> 32));
    u32(static_cast<std::uint32_t>(v));
  }
  void text(std::string_view v, std::size_t field) {
    v = v.substr(0, field);
    bytes_.append(v).append(field - v.size(), '\0');
  }
  void ports(const Ports& p) {
    u16(p.master);
    u16(p.store);
    u16(p.jax);
  }
  // Pads to `size` less the code, and appends the code of the bytes and `more`.
  std::string finish(std::size_t size, const Token& token, std::string_view more) {
    bytes_.resize(size - kMacSize);
    auto mac = hmac_sha256({token.data(), token.size()}, bytes_ + std::string(more));
    return bytes_.append(as_text(mac));
  }

private:
  std::string bytes_;
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint16_t u16() {
    auto v = take(2);
    return static_cast<std::uint16_t>(static_cast<unsigned char>(v[0]) << 8 |
                                      static_cast<unsigned char>(v[1]));
  }
  std::uint32_t u32() {
    std::uint32_t high = u16();
    return high << 16 | u16();
  }
  std::uint64_t u64() {
    std::uint64_t high = u32();
    return high << 32 | u32();
  }
  std::string text(std::size_t field) {
    auto v = take(field);
    return std::string(v.substr(0, v.find('\0')));
  }
  Ports ports() {
    Ports p;
    p.master = u16();
    p.store = u16();
    p.jax = u16();
    return p;
  }
  std::string_view take(std::size_t n) {
    auto v = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return v;
  }

private:
  std::string_view bytes_; // long enough by construction: messages have a fixed size
};

bool authentic(std::string_view signed_part, std::string_view code, const Token& token,
               std::string_view more) {
  auto expected =
      hmac_sha256({token.data(), token.size()}, std::string(signed_part) + std::string(more));
  Digest got;
  std::copy_n(code.begin(), kMacSize, reinterpret_cast<char*>(got.data()));
  return equal_in_constant_time(expected, got);
}

void write(Writer& out, const NodeFacts& facts) {
  out.text(facts.plugin_version, kVersion);
  out.u32(facts.local_ranks);
  out.u32(facts.gpus);
  out.u16(facts.gpus_isolated);
  out.text(facts.hcas, kHcas);
  for (auto limit :
       {facts.open_files, facts.open_files_hard, facts.locked_memory, facts.shared_memory})
    out.u64(limit);
  out.u32(facts.task_cores);
  out.u32(facts.task_cpus);
  out.u32(facts.cpus_per_task);
  out.text(facts.warnings, kWarnings);
}

NodeFacts read_node_facts(Reader& in) {
  NodeFacts facts;
  facts.plugin_version = in.text(kVersion);
  facts.local_ranks = in.u32();
  facts.gpus = in.u32();
  facts.gpus_isolated = in.u16() != 0;
  facts.hcas = in.text(kHcas);
  for (auto* limit :
       {&facts.open_files, &facts.open_files_hard, &facts.locked_memory, &facts.shared_memory})
    *limit = in.u64();
  facts.task_cores = in.u32();
  facts.task_cpus = in.u32();
  facts.cpus_per_task = in.u32();
  facts.warnings = in.text(kWarnings);
  return facts;
}

void write(Writer& out, const Error& failure) {
  out.text(failure.message, kMessage);
  out.text(failure.hint, kHint);
  out.text(failure.caret, kCaret);
}

Error read_failure(Reader& in) {
  Error failure{in.text(kMessage)};
  failure.hint = in.text(kHint);
  failure.caret = in.text(kCaret);
  return failure;
}

void write_spares(Writer& out, const Ports& ports) {
  out.u16(ports.spare);
  out.u16(ports.spare_count);
}

void read_spares(Reader& in, Ports& ports) {
  ports.spare = in.u16();
  ports.spare_count = in.u16();
}

std::string_view view(const Nonce& nonce) { return {nonce.data(), nonce.size()}; }

std::string signed_with(const Digest& layout, const Nonce& nonce) {
  return std::string(as_text(layout)) + std::string(view(nonce));
}

int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

} // namespace

std::string token_text(const Token& token) { return to_hex({token.data(), token.size()}); }

std::optional<Token> parse_token(std::string_view text) {
  Token token;
  if (text.size() != 2 * token.size())
    return std::nullopt;
  for (std::size_t i = 0; i < token.size(); ++i) {
    int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return std::nullopt;
    token[i] = static_cast<char>(high * 16 + low);
  }
  return token;
}

std::optional<std::string> encode(const Report& report, const Token& token) {
  if (report.node_ranks.size() > kRanks && !report.failure)
    return std::nullopt;
  Writer out;
  out.u32(kReportMagic);
  out.text(view(report.nonce), report.nonce.size());
  out.u16(static_cast<std::uint16_t>(report.want));
  out.u16(static_cast<std::uint16_t>(report.has_row | report.failure.has_value() << 1 |
                                     report.master.has_value() << 2 |
                                     report.facts.has_value() << 3));
  out.u32(report.id.job);
  out.u32(report.id.step);
  out.u32(report.world_size);
  out.u32(report.row.rank);
  out.u32(report.row.local_rank);
  out.text(report.row.node, kName);
  for (const auto* cell :
       {&report.row.gpu, &report.row.numa, &report.row.nic, &report.row.nic_class})
    out.text(*cell, kCell);
  out.text(report.row.cores, kCores);
  if (report.failure)
    write(out, *report.failure);
  else
    out.text(report.node_ranks, kRanks);
  out.text(report.node_list.size() <= kNodeList ? report.node_list : "", kNodeList);
  auto master = report.master.value_or(Master{});
  out.text(master.address, kAddress);
  out.text(master.interface, kInterface);
  out.ports(master.ports);
  write_spares(out, master.ports);
  write(out, report.facts.value_or(NodeFacts{}));
  return out.finish(kReportSize, token, "");
}

std::optional<Report> decode_report(std::string_view bytes, const Token& token) {
  if (bytes.size() != kReportSize || !authentic(bytes.substr(0, kReportSize - kMacSize),
                                                bytes.substr(kReportSize - kMacSize), token, ""))
    return std::nullopt;
  Reader in(bytes);
  if (in.u32() != kReportMagic)
    return std::nullopt;
  Report report;
  auto nonce = in.take(report.nonce.size());
  std::copy(nonce.begin(), nonce.end(), report.nonce.begin());
  report.want = static_cast<Want>(std::min<std::uint16_t>(in.u16(), 2));
  auto flags = in.u16();
  report.has_row = flags & 1;
  report.id.job = in.u32();
  report.id.step = in.u32();
  report.world_size = in.u32();
  report.row.rank = in.u32();
  report.row.local_rank = in.u32();
  report.row.node = in.text(kName);
  for (auto* cell : {&report.row.gpu, &report.row.numa, &report.row.nic, &report.row.nic_class})
    *cell = in.text(kCell);
  report.row.cores = in.text(kCores);
  if (flags & 2)
    report.failure = read_failure(in);
  else
    report.node_ranks = in.text(kRanks);
  report.node_list = in.text(kNodeList);
  Master master{report.row.node, in.text(kAddress), in.text(kInterface), in.ports()};
  read_spares(in, master.ports);
  auto facts = read_node_facts(in);
  facts.node = report.row.node;
  if (flags & 4)
    report.master = std::move(master);
  if (flags & 8)
    report.facts = std::move(facts);
  return report;
}

std::string encode(const Answer& answer, const Token& token, const Nonce& nonce) {
  std::string layout = answer.layout.size() <= kMaxLayoutSize ? answer.layout : "";
  Writer out;
  out.u32(kAnswerMagic);
  out.u32(static_cast<std::uint32_t>(layout.size()));
  out.u16(static_cast<std::uint16_t>(answer.status));
  out.u32(answer.node_rank);
  out.u32(answer.node_count);
  out.text(answer.master.node, kName);
  out.text(answer.master.address, kAddress);
  out.text(answer.master.interface, kInterface);
  out.ports(answer.master.ports);
  out.text(answer.note, kNote);
  write_spares(out, answer.master.ports);
  // The code covers the layout by its digest, which srun computes once for all tasks.
  auto digest = answer.layout_digest && !layout.empty() ? *answer.layout_digest : sha256(layout);
  return out.finish(kAnswerSize, token, signed_with(digest, nonce)) + layout;
}

std::optional<std::size_t> answer_length(std::string_view head) {
  if (head.size() < kAnswerSize)
    return std::nullopt;
  Reader in(head);
  auto magic = in.u32();
  auto layout = in.u32();
  if (magic != kAnswerMagic || layout > kMaxLayoutSize)
    return std::nullopt;
  return kAnswerSize + layout;
}

std::optional<Answer> decode_answer(std::string_view bytes, const Token& token,
                                    const Nonce& nonce) {
  auto length = answer_length(bytes);
  if (!length || bytes.size() != *length)
    return std::nullopt;
  auto layout = bytes.substr(kAnswerSize);
  if (!authentic(bytes.substr(0, kAnswerSize - kMacSize),
                 bytes.substr(kAnswerSize - kMacSize, kMacSize), token,
                 signed_with(sha256(layout), nonce)))
    return std::nullopt;
  Reader in(bytes);
  in.take(8);
  Answer answer;
  answer.status = static_cast<Status>(std::min<std::uint16_t>(in.u16(), 2));
  answer.node_rank = in.u32();
  answer.node_count = in.u32();
  answer.master.node = in.text(kName);
  answer.master.address = in.text(kAddress);
  answer.master.interface = in.text(kInterface);
  answer.master.ports = in.ports();
  answer.note = in.text(kNote);
  read_spares(in, answer.master.ports);
  answer.layout = layout;
  return answer;
}

} // namespace dist_train
