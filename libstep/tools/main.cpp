// SPDX-License-Identifier: BSD-3-Clause
// The dist-train command: one file per sub-command.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libstep/core/text.h"
#include "libstep/tools/convert.h"
#include "libstep/tools/env.h"
#include "libstep/tools/exec.h"
#include "libstep/tools/plan.h"
#include "libstep/tools/topo.h"

namespace {

constexpr const char* kHelp =
    "dist-train: looks at distributed jobs from inside\n"
    "\n"
    "  dist-train env [--json]          who this process is in its step, and the variables behind "
    "it\n"
    "  dist-train exec -- PROGRAM [ARG]...  runs it with the variables of srun --dist-train where "
    "the\n"
    "                                   plugin is not installed: srun dist-train exec -- PROGRAM\n"
    "  dist-train topo                  which GPU is near which CPUs, memory and NICs\n"
    "    --machine FILE                 of another machine: hwloc's XML (lstopo FILE.xml), the "
    "text\n"
    "                                   form, or an unpacked hwloc-gather-topology archive\n"
    "    --save DIR                     writes this machine's description, for a bug report\n"
    "    --cache                        writes it where the plugin looks first (root; until "
    "reboot)\n"
    "  dist-train plan                  what each task of a node would get, and why\n"
    "    --machine FILE                 on another machine\n"
    "    --gpus LIST                    numbers in PCI order, PCI addresses or UUIDs; none (all)\n"
    "    --tasks N                      on the node (one for each GPU)\n"
    "    --cpus SET                     of the step, as in 0-15,128 (all)\n"
    "    --bind auto|gpu|numa|core|keep|none  where the cores come from; keep, none: not from us\n"
    "    --json                         for programs\n"
    "  dist-train convert FILE.yaml     a Kubeflow PyTorchJob or TrainJob as a job script for "
    "sbatch;\n"
    "                                   what has no counterpart stands in its comments\n"
    "    --job NAME                     where the file has several\n"
    "    --no-container                 leaves out the image, for sites without pyxis\n"
    "  dist-train --version             the release\n"
    "  dist-train --help                this text; dist-train COMMAND --help that command's lines\n"
    "\n"
    "Example: srun -N2 --ntasks-per-node=2 --dist-train dist-train env\n";

using Words = std::vector<std::string>;

constexpr std::pair<std::string_view, int (*)(const Words&)> kCommands[] = {
    {"env", dist_train::run_env},
    {"exec", dist_train::run_exec},
    {"topo", dist_train::run_topo},
    {"plan", dist_train::run_plan},
    {"convert", dist_train::run_convert}};

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h"; }

// The lines of kHelp from the one that begins with this command to the next command's.
std::string_view help_of(std::string_view command) {
  constexpr std::string_view kLead = "\n  dist-train ", kText = kHelp;
  const auto begin = kText.find(std::string(kLead) + std::string(command) + ' ') + 1;
  return kText.substr(begin, kText.find(kLead, begin) + 1 - begin);
}

int run(const Words& arguments) {
  using namespace dist_train;
  if (arguments.empty()) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  const std::string& word = arguments.front();
  const Words rest(arguments.begin() + 1, arguments.end());
  for (const auto& [command, function] : kCommands) {
    if (word != command)
      continue;
    if (rest.empty() || !asks_for_help(rest.front()))
      return function(rest);
    const auto text = help_of(command);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const bool help = asks_for_help(word) || word == "help";
  if ((word == "--version" || help) && !rest.empty()) {
    std::fprintf(stderr, "dist-train: %s takes no argument, not %s\n", word.c_str(),
                 quoted(rest.front()).c_str());
    return 2;
  }
  if (word == "--version") {
    std::puts("dist-train " DIST_TRAIN_RELEASE);
    return 0;
  }
  if (help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  std::vector<std::string_view> words{"help", "--help", "--version"};
  for (const auto& command : kCommands)
    words.push_back(command.first);
  std::string near;
  if (const auto guess = nearest(word, words))
    near = "; did you mean '" + std::string(*guess) + "'?";
  std::fprintf(stderr, "dist-train: unknown command %s%s  dist-train --help lists all\n",
               quoted(word).c_str(), near.c_str());
  return 2;
}

} // namespace

int main(int count, char** words) {
  try {
    return run(std::vector<std::string>(words + 1, words + count));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dist-train: %s\n", error.what());
    return 1;
  }
}
