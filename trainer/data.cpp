// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/data.h"

#include "trainer/mapped_file.h"
#include "trainer/text_line.h"
#include "trainer/text_place.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <thread>

namespace dist_train {
namespace {

// Whole lines that one thread tokenises at a time, and their tokens.
struct Chunk {
  std::string_view lines;
  std::vector<int32_t> tokens;        // of all documents, each with its end-of-text id
  std::vector<size_t> document_sizes; // in tokens
  std::optional<Error> error;
};

std::vector<Chunk> cut_at_lines(std::string_view text) {
  constexpr size_t kChunkBytes = 1 << 20;
  std::vector<Chunk> chunks;
  while (!text.empty()) {
    const size_t newline = text.find('\n', std::min(kChunkBytes, text.size()));
    const size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    chunks.push_back({text.substr(0, end), {}, {}, {}});
    text.remove_prefix(end);
  }
  return chunks;
}

class Reader {
public:
  Reader(const std::string& file, std::string_view text, const Tokenizer& tokenizer,
         int32_t end_of_text)
      : file_(file), text_(text), tokenizer_(tokenizer), end_of_text_(end_of_text),
        chunks_(cut_at_lines(text)) {}

  // Tokenises all chunks. Error: that of the first bad line, whatever the threads' timing.
  Result<void> run(int threads) {
    const auto work = [this] {
      // Chunks are taken in order, so all before a faulty one are finished by somebody.
      while (!failed_) {
        const size_t i = next_++;
        if (i >= chunks_.size()) {
          return;
        }
        read_chunk(chunks_[i]);
        if (chunks_[i].error) {
          failed_ = true;
        }
      }
    };
    {
      std::vector<std::jthread> workers;
      const size_t wanted = std::min(size_t(std::max(threads, 1)), chunks_.size());
      for (size_t i = 1; i < wanted; ++i) {
        workers.emplace_back(work);
      }
      work();
    } // joined
    for (const Chunk& chunk : chunks_) {
      if (chunk.error) {
        return *chunk.error;
      }
    }
    return {};
  }

  Result<PackedRows> pack(int64_t block_size) {
    size_t tokens = 0, documents = 0;
    for (const Chunk& chunk : chunks_) {
      tokens += chunk.tokens.size();
      documents += chunk.document_sizes.size();
    }
    if (documents == 0) {
      return Error{file_ + ": holds no text", "each line must be an object with a \"text\" string"};
    }
    if (documents > size_t(std::numeric_limits<int32_t>::max())) {
      return Error{file_ + ": has " + std::to_string(documents) + " documents; at most 2^31-1 fit",
                   "split the file"};
    }
    const auto block = size_t(block_size);
    const size_t padded = (tokens + block - 1) / block * block;
    PackedRows result;
    result.block_size = block_size;
    result.documents_count = int64_t(documents);
    result.tokens.reserve(padded);
    result.documents.reserve(padded);
    int32_t document = 0;
    for (Chunk& chunk : chunks_) {
      result.tokens.insert(result.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      for (const size_t size : chunk.document_sizes) {
        result.documents.insert(result.documents.end(), size, document++);
      }
      chunk = {}; // its memory is wanted for the rows
    }
    result.tokens.resize(padded, end_of_text_);
    result.documents.resize(padded, -1);
    return result;
  }

private:
  void read_chunk(Chunk& chunk) {
    std::string_view rest = chunk.lines;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      if (auto error = read_line(rest.substr(0, end), chunk)) {
        chunk.error = std::move(error);
        return;
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  std::optional<Error> read_line(std::string_view line, Chunk& chunk) const {
    const auto offset = size_t(line.data() - text_.data());
    auto text = text_of_line(line);
    if (const auto* fault = std::get_if<LineFault>(&text)) {
      return Error{place_text(file_, text_, offset + fault->offset) + ": " + fault->what,
                   "each line must be an object with a \"text\" string",
                   excerpt(text_, offset + fault->offset, 1)};
    }
    const auto ids = tokenizer_.encode(std::get<std::string>(text));
    if (!ids) {
      return Error{place_text(file_, text_, offset) + ": " + ids.error().message, ids.error().hint};
    }
    if (ids->empty()) {
      return {};
    }
    const size_t before = chunk.tokens.size();
    chunk.tokens.insert(chunk.tokens.end(), ids->begin(), ids->end());
    if (ids->back() != end_of_text_) {
      chunk.tokens.push_back(end_of_text_);
    }
    chunk.document_sizes.push_back(chunk.tokens.size() - before);
    return {};
  }

  const std::string& file_;
  std::string_view text_;
  const Tokenizer& tokenizer_;
  int32_t end_of_text_;
  std::vector<Chunk> chunks_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
};

} // namespace

Result<PackedRows> read_text_rows(const std::string& file, const Tokenizer& tokenizer,
                                  int32_t end_of_text, int64_t block_size, int threads) {
  if (end_of_text < 0 || end_of_text >= tokenizer.vocabulary_size()) {
    return Error{"the end-of-text id " + std::to_string(end_of_text) +
                     " is not one of the tokenizer's " +
                     std::to_string(tokenizer.vocabulary_size()) + " ids",
                 "config.json and tokenizer.json belong to different models"};
  }
  if (block_size < 1) {
    return Error{"block_size is " + std::to_string(block_size), "it must be at least 1"};
  }
  const auto content = MappedFile::open(file, "it must be a JSONL file of {\"text\": ...} lines");
  if (!content) {
    return content.error();
  }
  Reader reader(file, content->text(), tokenizer, end_of_text);
  if (auto read = reader.run(threads); !read) {
    return read.error();
  }
  return reader.pack(block_size);
}

} // namespace dist_train
