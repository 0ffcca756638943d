// SPDX-License-Identifier: BSD-3-Clause
// The programs of the benchmarks live until whoever started them closes their standard input.
#pragma once

#include <cerrno>
#include <unistd.h>

inline void await_end_of_input() {
  char byte;
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);)
    got = read(STDIN_FILENO, &byte, 1);
}
