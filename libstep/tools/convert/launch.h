// SPDX-License-Identifier: BSD-3-Clause
// From the command of a pod to the tasks of a step: each process that the manifest would have
// started becomes a task. torchrun in front of a program gives way to srun; one that cannot be
// taken apart stays, one task a node.
#pragma once

#include "libstep/tools/convert/manifest.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

// Part of a word: text, or a variable that the task has.
struct WordPart {
  bool variable = false;
  std::string text;
  bool operator==(const WordPart&) const = default;
};
using Word = std::vector<WordPart>;

struct Launch {
  std::string option = "--dist-train";
  std::uint32_t tasks_per_node = 1;
  std::vector<Word> environment; // NAME=VALUE
  std::vector<Word> program;
  std::vector<PodSecret> secrets; // that the job needs
  bool entrypoint = false;        // the image's own command runs before `program`
  std::vector<std::string> notes; // printable lines
};

// An error where the manifest names nothing to run, another launcher for several pods, or what no
// program can be given. $(NAME) is put in as Kubernetes does: from the manifest's variables,
// unknown names stay as they are and $$ is $. Secrets, and names that the operator sets in each
// pod, become variables of the task.
Result<Launch> plan_launch(const Manifest& manifest);

} // namespace dist_train
