// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/wire.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace dist_train {
namespace {

constexpr std::string_view kMagic = "STEP";

// Writer and Reader walk the same list of fields, so that the two directions cannot drift apart.
class Writer {
public:
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  std::string take() { return std::move(bytes_); }

private:
  template <typename Number>
  requires std::is_integral_v<Number> || std::is_enum_v<Number>
  void put(Number value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof value; ++i, bits >>= 8)
      bytes_ += static_cast<char>(bits & 0xff);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void put(const std::vector<std::string>& texts) {
    put(static_cast<std::uint32_t>(texts.size()));
    for (const auto& text : texts)
      put(text);
  }

  std::string bytes_;
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  bool complete() const { return good_ && bytes_.empty(); }

private:
  std::string_view take(std::size_t count) {
    good_ = good_ && count <= bytes_.size();
    if (!good_)
      return {};
    const auto taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Number>
  requires std::is_integral_v<Number> || std::is_enum_v<Number>
  void get(Number& value) {
    std::uint64_t bits = 0;
    int shift = 0;
    for (const char c : take(sizeof value)) {
      bits |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
      shift += 8;
    }
    value = static_cast<Number>(bits);
  }
  void get(std::string& text) {
    std::uint32_t size = 0;
    get(size);
    text = take(size);
  }
  void get(std::vector<std::string>& texts) {
    std::uint32_t count = 0;
    get(count);
    // Each text needs four bytes at least, so a huge count ends with the bytes.
    for (; good_ && count > 0; --count)
      get(texts.emplace_back());
  }

  std::string_view bytes_;
  bool good_ = true;
};

template <typename Archive, typename Record>
void walk(Archive& archive, Record& record) {
  using Plain = std::remove_const_t<Record>;
  if constexpr (std::is_same_v<Plain, Introduce>)
    archive(record.node);
  else if constexpr (std::is_same_v<Plain, SetKey>)
    archive(record.key, record.value);
  else if constexpr (std::is_same_v<Plain, GetKey>)
    archive(record.key, record.capacity, record.wait_ms);
  else if constexpr (std::is_same_v<Plain, WaitKeys>)
    archive(record.keys, record.wait_ms);
  else if constexpr (std::is_same_v<Plain, AddKey>)
    archive(record.key, record.delta);
  else if constexpr (std::is_same_v<Plain, CompareAndSet>)
    archive(record.key, record.missing, record.expected, record.desired);
  else if constexpr (std::is_same_v<Plain, DeleteKey>)
    archive(record.key);
  else if constexpr (std::is_same_v<Plain, Collective>)
    archive(record.number, record.pattern, record.root, record.length, record.data, record.wait_ms);
  else if constexpr (std::is_same_v<Plain, Progress>)
    archive(record.iteration);
  else if constexpr (std::is_same_v<Plain, StopRequest>)
    archive(record.reason);
  else if constexpr (std::is_same_v<Plain, StopReport>)
    archive(record.passed);
  else
    static_assert(std::is_same_v<Plain, CountKeys> || std::is_same_v<Plain, Goodbye> ||
                  std::is_same_v<Plain, TimeLeft>);
}

template <std::size_t Index = 0>
std::optional<Request> decode_as(std::uint8_t kind, std::string_view body) {
  if constexpr (Index < std::variant_size_v<Request>) {
    if (kind != Index)
      return decode_as<Index + 1>(kind, body);
    std::variant_alternative_t<Index, Request> record;
    Reader reader(body);
    walk(reader, record);
    if (!reader.complete())
      return std::nullopt;
    return Request{std::move(record)};
  } else {
    return std::nullopt;
  }
}

// What the proofs cover of either block: all but themselves.
std::string head(const Hello& hello) {
  Writer writer;
  writer(hello.version, hello.rank, hello.world, hello.generation);
  return std::string(kMagic) + writer.take() + hello.nonce;
}

std::string head(const Welcome& welcome) {
  Writer writer;
  writer(welcome.version, welcome.verdict, welcome.program_port);
  return std::string(kMagic) + writer.take();
}

} // namespace

std::string encode(const Hello& hello) { return head(hello) + hello.proof; }

std::string encode(const Welcome& welcome) { return head(welcome) + welcome.proof; }

std::optional<std::uint8_t> decode_opening(std::string_view bytes) {
  if (bytes.size() != kOpeningSize || !bytes.starts_with(kMagic))
    return std::nullopt;
  return static_cast<std::uint8_t>(bytes.back());
}

std::optional<Hello> decode_hello(std::string_view bytes) {
  if (bytes.size() != kHelloSize || !bytes.starts_with(kMagic))
    return std::nullopt;
  Hello hello;
  hello.proof = bytes.substr(kHelloSize - kProofSize);
  bytes.remove_suffix(kProofSize);
  hello.nonce = bytes.substr(bytes.size() - kNonceSize);
  bytes.remove_suffix(kNonceSize);
  Reader reader(bytes.substr(kMagic.size()));
  reader(hello.version, hello.rank, hello.world, hello.generation);
  return hello;
}

std::optional<Welcome> decode_welcome(std::string_view bytes) {
  if (bytes.size() != kWelcomeSize || !bytes.starts_with(kMagic))
    return std::nullopt;
  Welcome welcome;
  welcome.proof = bytes.substr(kWelcomeSize - kProofSize);
  bytes.remove_suffix(kProofSize);
  Reader reader(bytes.substr(kMagic.size()));
  reader(welcome.version, welcome.verdict, welcome.program_port);
  return welcome;
}

// Of one block of SHA-256 each, which is why the texts are as short as they are.
Digest prove(std::string_view token, const Hello& hello) {
  return hmac_sha256(token, "libstep rank\n" + head(hello));
}

Digest prove(std::string_view token, const Hello& hello, const Welcome& welcome) {
  return hmac_sha256(token, "libstep store\n" + head(hello) + head(welcome));
}

bool proves(std::string_view given, const Digest& right) {
  Digest digest{};
  if (given.size() != digest.size())
    return false;
  std::copy(given.begin(), given.end(), digest.begin());
  return equal_in_constant_time(digest, right);
}

std::string encode(const Header& header) {
  Writer writer;
  writer(header.length, header.id, header.kind, std::uint8_t{0}, std::uint16_t{0});
  return writer.take();
}

std::optional<Header> decode_header(std::string_view bytes) {
  Header header;
  std::uint8_t zero = 0;
  std::uint16_t zeros = 0;
  Reader reader(bytes);
  reader(header.length, header.id, header.kind, zero, zeros);
  if (!reader.complete() || header.length > kMaxBody || zero != 0 || zeros != 0)
    return std::nullopt;
  return header;
}

std::uint8_t kind_of(const Request& request) { return static_cast<std::uint8_t>(request.index()); }

std::string encode_body(const Request& request) {
  Writer writer;
  std::visit([&](const auto& record) { walk(writer, record); }, request);
  return writer.take();
}

std::optional<Request> decode_request(std::uint8_t kind, std::string_view body) {
  return decode_as<>(kind, body);
}

std::string encode_number(std::uint64_t value) {
  Writer writer;
  writer(value);
  return writer.take();
}

std::optional<std::uint64_t> decode_number(std::string_view bytes) {
  std::uint64_t value = 0;
  Reader reader(bytes);
  reader(value);
  return reader.complete() ? std::optional(value) : std::nullopt;
}

} // namespace dist_train
