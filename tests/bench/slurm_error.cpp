// SPDX-License-Identifier: BSD-3-Clause
// What the broker calls in srun: Slurm's error log.
#include <slurm/spank.h>

#include <cstdarg>
#include <cstdio>

extern "C" void slurm_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}
