// SPDX-License-Identifier: BSD-3-Clause
#include "spank/decision.h"

namespace dist_train {

namespace {

// A lower voice's `off` does not weaken a command line that asks for the step.
Options on_command_line(Options said, const Options& lower) {
  auto merged = merge(said, lower);
  if (!said.mode && merged.mode.value_or(Mode::kOff) == Mode::kOff)
    merged.mode = Mode::kTorch;
  return merged;
}

} // namespace

Options decide(const Voices& voices, CpuBind cpu_bind) {
  auto decided = voices.plugstack.value_or(Options{});
  if (voices.inherited)
    decided = on_command_line(*voices.inherited, decided);
  if (voices.environment)
    decided = merge(*voices.environment, decided);
  if (voices.line)
    decided = on_command_line(*voices.line, decided);
  if (!decided.mode || (voices.by_launcher && !voices.line))
    decided.mode = Mode::kOff;
  if (decided.mode != Mode::kTorchrun)
    decided.nproc.reset(); // of another voice, which meant a step of that mode
  // A mask that the user asked of Slurm stays. --cpu-bind=none leaves the binding to whoever says
  // bind= on the same line.
  bool line_binds = voices.line && voices.line->bind;
  if (decided.bind != BindRule::kNone &&
      (cpu_bind == CpuBind::kBinds || (cpu_bind == CpuBind::kNone && !line_binds)))
    decided.bind = BindRule::kKeep;
  return decided;
}

} // namespace dist_train
