// SPDX-License-Identifier: BSD-3-Clause
#include "spank/slurm_log.h"

#include "libstep/core/text.h"
#include "spank/export.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

namespace dist_train {

void log_error(const Error& error) {
  slurm_error("dist-train: %s", error.message.c_str());
  // The caret's last line has the hint already.
  if (!error.caret.empty()) {
    for (auto line : split(error.caret, '\n'))
      slurm_error("%.*s", static_cast<int>(line.size()), line.data());
  } else if (!error.hint.empty()) {
    slurm_error("dist-train: %s", error.hint.c_str());
  }
}

void tell_user(std::string_view text) { write_to_user("dist-train: " + std::string(text) + '\n'); }

void let_slurm_read() {
  int unread = 0;
  for (int tries = 0; tries < 50; ++tries) {
    if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void write_to_user(std::string_view text) {
  while (!text.empty()) {
    auto written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR)
      return; // nobody listens; there is no other place to complain
    if (written > 0)
      text.remove_prefix(static_cast<std::size_t>(written));
  }
}

} // namespace dist_train
