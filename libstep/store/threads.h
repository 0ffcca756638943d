// SPDX-License-Identifier: BSD-3-Clause
// Threads of the library: all signals blocked, so that the program's handlers run in the program's
// own threads.
#pragma once

#include <csignal>
#include <system_error>
#include <thread>

#include <pthread.h>

#include "libstep/store/socket.h"

namespace dist_train {

// name: at most 15 bytes, shown by ps and debuggers. body must not throw.
template <typename Body>
Result<std::thread> start_quiet_thread(const char* name, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int error = 0;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& failed) {
    error = failed.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    return Error{system_text("cannot start a thread", error),
                 "see the limit of processes: ulimit -u"};
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

} // namespace dist_train
