// SPDX-License-Identifier: BSD-3-Clause
// The store's blocks and frames, as bytes of anyone. Input: a kind, then a body.
#include "libstep/store/wire.h"
#include "libstep/store/roster.h"
#include "tests/fuzz/check.h"

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

template <typename Block>
void require_same(const std::optional<Block>& block, std::string_view bytes) {
  if (!block)
    return;
  require(encode(*block) == bytes, "a block that is understood comes back equal");
  require(decode_opening(bytes.substr(0, kOpeningSize)) == block->version,
          "a block's opening tells its version");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = text_of(data, size);
  require_same(decode_hello(bytes), bytes);
  require_same(decode_welcome(bytes), bytes);
  if (auto header = decode_header(bytes)) {
    require(header->length <= kMaxBody, "a frame is bounded");
    require(encode(*header) == bytes, "a header comes back equal");
  }
  if (auto number = decode_number(bytes))
    require(encode_number(*number) == bytes, "a number comes back equal");
  auto error = parse_failure(bytes);
  require(error.message.size() + error.hint.size() <= size, "a failure's text is not longer");
  if (size == 0)
    return 0;
  auto body = bytes.substr(1);
  auto request = decode_request(data[0], body);
  if (!request)
    return 0;
  require(kind_of(*request) == data[0], "a request is of its kind");
  auto again = encode_body(*request);
  require(again.size() == body.size(), "a request comes back in the same size");
  auto back = decode_request(data[0], again);
  require(back && encode_body(*back) == again, "a request comes back equal");
  return 0;
}
