// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/launchers.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace dist_train {

namespace {

struct Launcher {
  std::string_view program, argument; // the argument that makes it one; "" for any
};
constexpr Launcher kPrograms[]{{"torchrun", ""}, {"accelerate", "launch"}, {"deepspeed", ""},
                               {"mpirun", ""},   {"mpiexec", ""},          {"horovodrun", ""}};
constexpr std::string_view kModules[]{"torch.distributed.run", "torch.distributed.launch",
                                      "accelerate.commands.launch", "deepspeed.launcher.runner"};
constexpr std::string_view kShells[]{"sh", "bash", "dash", "zsh", "ksh"};

bool is_one_of(std::string_view word, const auto& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1); // npos + 1 is 0
}

// The module that `python ARGUMENT...` runs with -m; "" if it runs a script or a text.
std::string_view python_module(const std::vector<std::string>& command, std::size_t at) {
  for (; at < command.size() && command[at].starts_with('-'); ++at) {
    std::string_view option = command[at];
    if (option.starts_with("--"))
      continue;
    // Letters may be joined ("-um"); what follows c or m is its value.
    if (auto letter = option.find_first_of("cm"); letter != option.npos) {
      if (option[letter] == 'c')
        return "";
      if (letter + 1 < option.size())
        return option.substr(letter + 1);
      return at + 1 < command.size() ? std::string_view(command[at + 1]) : "";
    }
    if (option == "-W" || option == "-X")
      ++at;
  }
  return "";
}

// The commands of a shell's text, roughly: words between blanks, commands between ; & | and lines.
std::string launcher_in_shell(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : '\n';
    bool ends_command = c == ';' || c == '&' || c == '|' || c == '\n' || c == '(' || c == ')';
    if (!ends_command && c != ' ' && c != '\t') {
      if (c != '"' && c != '\'')
        word += c;
      continue;
    }
    if (!word.empty())
      words.push_back(std::move(word));
    word.clear();
    if (!ends_command)
      continue;
    if (auto found = launcher_in(words); !found.empty())
      return found;
    words.clear();
  }
  return "";
}

bool is_torchrun(std::string_view launcher) {
  return launcher == "torchrun" || launcher.ends_with("torch.distributed.run") ||
         launcher.ends_with("torch.distributed.launch");
}

// Whether the user has told torchrun of the nodes; in the words of a shell's -c, too.
bool names_nodes(const std::vector<std::string>& command) {
  return std::any_of(command.begin(), command.end(), [](const std::string& word) {
    return word.find("--nnodes") != word.npos || word.find("--standalone") != word.npos;
  });
}

// The number after --node_rank in srun's own line, which all tasks share: the job script's shell
// has filled in a variable that is 0 there. "" if there is none, or the rendezvous deals out the
// ranks.
std::string_view shared_node_rank(const std::vector<std::string>& command) {
  std::string_view rank;
  for (std::size_t i = 0; i < command.size() && !command[i].ends_with(".py"); ++i) {
    std::string_view word = command[i];
    if (word.find("c10d") != word.npos || word.find("etcd") != word.npos)
      return "";
    if (!word.starts_with("--node_rank") && !word.starts_with("--node-rank"))
      continue;
    word.remove_prefix(std::string_view("--node_rank").size());
    if (word.starts_with('='))
      rank = word.substr(1);
    else if (word.empty() && i + 1 < command.size())
      rank = command[i + 1];
  }
  return parse_number(rank, UINT32_MAX) ? rank : "";
}

const std::string* set_in(const Environment& environment, const char* name) {
  auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

} // namespace

std::string launcher_in(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    auto name = base_name(command[i]);
    auto next = i + 1 < command.size() ? std::string_view(command[i + 1]) : "";
    for (const auto& launcher : kPrograms)
      if (name == launcher.program && (launcher.argument.empty() || next == launcher.argument))
        return std::string(name) + (launcher.argument.empty() ? "" : " ") +
               std::string(launcher.argument);
    if (name.starts_with("python")) {
      auto module = python_module(command, i + 1);
      return is_one_of(module, kModules) ? "python -m " + std::string(module) : "";
    }
    if (is_one_of(name, kShells) && next.starts_with('-') && next.ends_with('c'))
      return i + 2 < command.size() ? launcher_in_shell(command[i + 2]) : "";
    if (name.ends_with(".py") || name.ends_with(".sh"))
      return ""; // what follows are its arguments
  }
  return "";
}

std::vector<std::string> launch_warnings(const LaunchFacts& launch, const Environment& environment,
                                         const Options& options) {
  std::vector<std::string> warnings;
  auto launcher = launcher_in(launch.command);
  if (!launcher.empty() && launch.tasks > launch.nodes)
    warnings.push_back(
        "the command is the launcher '" + launcher + "', and " + std::to_string(launch.tasks) +
        " tasks on " + std::to_string(launch.nodes) +
        " nodes would each start the ranks of their node, on the same ports and GPUs; give srun "
        "the program itself (python train.py), or one task per node (--ntasks-per-node=1)");
  else if (is_torchrun(launcher) && launch.nodes > 1 && options.mode != Mode::kTorchrun &&
           !names_nodes(launch.command))
    warnings.push_back("'" + launcher +
                       "' without --nnodes trains on each node alone; "
                       "--dist-train=torchrun tells it of all " +
                       std::to_string(launch.nodes) + " nodes");
  else if (auto rank = shared_node_rank(launch.command);
           is_torchrun(launcher) && launch.nodes > 1 && !rank.empty())
    warnings.push_back("'" + launcher + "' gets --node_rank " + std::string(rank) + " on all " +
                       std::to_string(launch.nodes) +
                       " nodes and waits for the others: the job script's shell has filled the "
                       "number in; leave it away with --dist-train=torchrun, or write srun bash -c "
                       "'" +
                       launcher + " --node_rank=$SLURM_NODEID ...'");
  if (!options.verbose.value_or(false))
    return warnings;
  for (const char* proxy : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const auto* value = set_in(environment, proxy);
    if (!value)
      continue;
    if (!set_in(environment, "no_grpc_proxy") && !set_in(environment, "no_proxy"))
      warnings.push_back(std::string(proxy) + "=" + quoted(*value) +
                         " is set: JAX and others that use gRPC will send their rendezvous "
                         "through it; unset it, or name the nodes in no_proxy");
    break; // gRPC takes the first
  }
  return warnings;
}

} // namespace dist_train
