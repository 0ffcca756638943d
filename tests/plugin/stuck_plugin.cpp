// SPDX-License-Identifier: BSD-3-Clause
// Makes the plugin crash or hang in the middle of its work, for the tests alone: linked with
// --wrap=spank_get_item, so that the plugin's code is the one that is shipped. The task's variable
// STUCK says how: segv, abort or hang.
#include "spank/export.h"

#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

extern "C" {
spank_err_t __real_spank_get_item(spank_t, spank_item_t, ...);
spank_err_t __wrap_spank_get_item(spank_t, spank_item_t, ...);

spank_err_t __wrap_spank_get_item(spank_t spank, spank_item_t item, ...) {
  va_list arguments;
  va_start(arguments, item);
  void* out = va_arg(arguments, void*);
  va_end(arguments);
  std::array<char, 16> how{};
  if (item == S_JOB_ENV && spank_getenv(spank, "STUCK", how.data(), how.size()) == ESPANK_SUCCESS) {
    std::string_view said = how.data();
    if (said == "segv")
      std::raise(SIGSEGV);
    if (said == "abort")
      std::abort();
    while (said == "hang")
      pause();
  }
  return __real_spank_get_item(spank, item, out);
}
}
