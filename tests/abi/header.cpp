// SPDX-License-Identifier: BSD-3-Clause
// The public headers as C++ sees them; compiled, and run once in a world of one.
#include <libstep/step.hpp>

#include <cstdlib>
#include <cstring>

int main() {
  clearenv();
  dist_train::Step first;
  dist_train::Step step = std::move(first);
  const std::string large(5000, 'x');
  step.set("k", large);
  if (step.get("k", 0) != large || step.add("n", 2) != 2 || step.rank() != 0)
    return EXIT_FAILURE;
  step.barrier(1);
  try {
    step.get("none", 0);
  } catch (const dist_train::StepError& error) {
    return error.code() == STEP_ERR_NOT_FOUND && std::strstr(error.what(), "'none'") != nullptr
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
  }
  return EXIT_FAILURE;
}
