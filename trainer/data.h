// SPDX-License-Identifier: BSD-3-Clause
// Rows of packed tokens from JSONL text, and the order in which they are trained on. Order is a
// function of (seed, epoch, index) alone, so that it is the same at every world size. No torch.
#pragma once

#include "libstep/core/result.h"
#include "trainer/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dist_train {

// Packed rows of block_size tokens, cut from the documents one after the other, each document
// followed by the end-of-text id (not twice where the text ends with it). A document that crosses a
// row's end goes on in the next row. The last row is filled up with padding (document -1, token
// end-of-text). Where the document's number changes, attention and positions start anew.
struct PackedRows {
  int64_t block_size = 0;
  std::vector<int32_t> tokens;     // [rows, block_size]
  std::vector<int32_t> documents;  // [rows, block_size] number of the document, -1 is padding
  int64_t documents_count = 0;
  int64_t rows() const { return block_size ? int64_t(tokens.size()) / block_size : 0; }
  std::span<const int32_t> row(int64_t i) const {
    return {tokens.data() + i * block_size, size_t(block_size)};
  }
  std::span<const int32_t> documents_of(int64_t i) const {
    return {documents.data() + i * block_size, size_t(block_size)};
  }
};

// Reads a JSONL file of {"text": "..."} objects (other members are ignored), tokenises it with
// `threads` threads and packs it. The rows do not depend on `threads`. The first bad line is an
// error "FILE:LINE:COLUMN: ...". Empty lines and empty texts are skipped; a file without any text is
// an error.
Result<PackedRows> read_text_rows(const std::string& file, const Tokenizer& tokenizer,
                                  int32_t end_of_text, int64_t block_size, int threads);

// The row trained on at position `index` (0, 1, 2 ... over all epochs) of a set of `rows` rows: a
// permutation of 0..rows-1 for each epoch, keyed by (seed, epoch). index >= 0, rows > 0.
int64_t row_at(int64_t index, int64_t rows, uint64_t seed);

} // namespace dist_train
