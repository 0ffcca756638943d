// SPDX-License-Identifier: BSD-3-Clause
// tokenize_lines TOKENIZER.json [--time]: reads JSON strings from standard input, one a line, and
// writes the ids of each as one line. With --time it writes bytes, ids and seconds instead.
#include "trainer/tokenizer.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

int main(int argc, char** argv) {
  const auto fail = [](const dist_train::Error& error) {
    std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.hint.c_str());
    return 1;
  };
  if (argc < 2) {
    std::fprintf(stderr, "usage: tokenize_lines TOKENIZER.json [--time]\n");
    return 2;
  }
  const auto tokenizer = dist_train::Tokenizer::open(argv[1]);
  if (!tokenizer) {
    return fail(tokenizer.error());
  }
  const bool timed = argc > 2 && std::string(argv[2]) == "--time";
  size_t bytes = 0, count = 0;
  std::chrono::duration<double> seconds{};
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = nlohmann::json::parse(line).get<std::string>();
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokenizer->encode(text);
    seconds += std::chrono::steady_clock::now() - begin;
    if (!ids) {
      return fail(ids.error());
    }
    bytes += text.size();
    count += ids->size();
    if (!timed) {
      std::string out;
      for (const int32_t id : *ids) {
        out += std::to_string(id) + " ";
      }
      std::puts(out.c_str());
    }
  }
  if (timed) {
    std::printf("bytes=%zu ids=%zu seconds=%.6f mb_per_s=%.2f\n", bytes, count, seconds.count(),
                double(bytes) / 1e6 / seconds.count());
  }
  return 0;
}
