// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/launchers.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace dist_train {

namespace {

struct Launcher {
  std::string_view program, argument; // the argument that makes it one; "" for any
};
constexpr Launcher kPrograms[]{
    {"torchrun", ""}, {"accelerate", "launch"}, {"accelerate-launch", ""}, {"deepspeed", ""},
    {"mpirun", ""},   {"mpiexec", ""},          {"horovodrun", ""}};
constexpr std::string_view kModules[]{"torch.distributed.run", "torch.distributed.launch",
                                      "accelerate.commands.launch", "deepspeed.launcher.runner"};
constexpr std::string_view kShells[]{"sh", "bash", "dash", "zsh", "ksh"};

bool is_one_of(std::string_view word, const auto& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
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

// Whether the command holds one of these; in the words of a shell's -c, too.
bool says(const std::vector<std::string>& command, std::initializer_list<std::string_view> names) {
  return std::any_of(command.begin(), command.end(), [&](std::string_view word) {
    return std::any_of(names.begin(), names.end(),
                       [&](auto name) { return word.find(name) != word.npos; });
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

// Why torchrun, one task a node, will not make one world of these nodes; "" if it will.
std::string torchrun_warning(const std::string& launcher, const LaunchFacts& launch,
                             const Environment& environment, Mode mode) {
  const auto& command = launch.command;
  const auto nodes = std::to_string(launch.nodes) + " nodes";
  const bool standalone = says(command, {"--standalone"});
  if (mode == Mode::kTorchrun && standalone)
    return quoted(launcher) + " with --standalone trains on each of the " + nodes +
           " alone; leave it away: mode torchrun tells it of all of them";
  // Of a heterogeneous step we know the first component only.
  const auto told = number_argument(command, "--nnodes");
  if (mode == Mode::kTorchrun && told != 0 && told != launch.nodes &&
      value_of(environment, "SLURM_HET_SIZE").empty())
    return quoted(launcher) + " gets --nnodes " + std::to_string(told) + ", and the step has " +
           nodes +
           (told > launch.nodes ? ": it waits for nodes that do not come"
                                : ": the others have no place in its world") +
           "; leave it away: mode torchrun tells it";
  if (mode != Mode::kTorchrun && !standalone && !says(command, {"--nnodes"}))
    return quoted(launcher) +
           " without --nnodes trains on each node alone; --dist-train=torchrun tells it of all " +
           nodes;
  if (auto rank = shared_node_rank(command); !rank.empty())
    return quoted(launcher) + " gets --node_rank " + std::string(rank) + " on all " + nodes +
           " and waits for the others: the job script's shell has filled the number in; leave it "
           "away with --dist-train=torchrun, or write srun bash -c '" +
           launcher + " --node_rank=$SLURM_NODEID ...'";
  return "";
}

// The same of launchers that only their arguments tell of nodes. accelerate starts one process as
// it is, with the step's ranks if there are any; several by torchrun's code, which reads PET_*,
// though not the port.
std::string other_launcher_warning(const std::string& launcher, const LaunchFacts& launch,
                                   Mode mode) {
  std::string_view lacking, outcome = "trains on each node alone", option = "--dist-train";
  if (launcher.find("accelerate") != launcher.npos &&
      !says(launch.command,
            {"--num_machines", "--num-machines", "--config_file", "--config-file"})) {
    lacking = "--num_machines";
    outcome = mode == Mode::kTorchrun ? "trains on each node alone where it starts one process, "
                                        "and meets at port 29500, taken or not, where several"
                                      : "trains on each node alone where it starts several "
                                        "processes";
  } else if (launcher.find("deepspeed") != launcher.npos &&
             !says(launch.command, {"--hostfile", "-H"})) {
    lacking = "--hostfile";
    option = "--dist-train=deepspeed";
  }
  if (lacking.empty())
    return "";
  return quoted(launcher) + " without " + std::string(lacking) + ' ' + std::string(outcome) +
         "; give srun the program itself, one task a GPU: srun --ntasks-per-node=GPUS " +
         std::string(option) + " python train.py";
}

} // namespace

std::string_view base_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1); // npos + 1 is 0
}

bool is_torchrun(std::string_view launcher) {
  return launcher == "torchrun" || launcher.ends_with("torch.distributed.run") ||
         launcher.ends_with("torch.distributed.launch");
}

std::string launcher_in(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    auto name = base_name(command[i]);
    auto next = i + 1 < command.size() ? std::string_view(command[i + 1]) : "";
    // "--engine deepspeed" of some other program
    const bool value = i > 0 && command[i - 1].size() > 2 && command[i - 1].starts_with("--") &&
                       command[i - 1].find('=') == std::string::npos;
    for (const auto& launcher : kPrograms)
      if (!value && name == launcher.program &&
          (launcher.argument.empty() || next == launcher.argument))
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

std::uint32_t number_argument(const std::vector<std::string>& command, std::string_view option) {
  constexpr std::uint32_t kMost = 1u << 20;
  std::uint32_t size = 0;
  bool follows = false;
  for (const auto& argument : command)
    for (auto word : split(argument, ' ')) {
      word = word.substr(0, word.find_last_not_of("\"';\n\t") + 1); // of a shell's text
      bool equals =
          word.size() > option.size() && word.starts_with(option) && word[option.size()] == '=';
      if (equals)
        word.remove_prefix(option.size() + 1);
      if (follows || equals)
        size = static_cast<std::uint32_t>(parse_number(word, kMost).value_or(0));
      follows = !equals && word == option;
    }
  return size;
}

std::vector<std::string> launch_warnings(const LaunchFacts& launch, const Environment& environment,
                                         const Options& options) {
  std::vector<std::string> warnings;
  auto launcher = launcher_in(launch.command);
  auto mode = options.mode.value_or(Mode::kTorch);
  if (!launcher.empty() && launch.tasks > launch.nodes)
    warnings.push_back(
        "the command is the launcher '" + launcher + "', and " + std::to_string(launch.tasks) +
        " tasks on " + std::to_string(launch.nodes) +
        " nodes would each start the ranks of their node, on the same ports and GPUs; give srun "
        "the program itself (python train.py), or one task per node (--ntasks-per-node=1)");
  else if (!launcher.empty() && launch.nodes > 1)
    if (auto warning = is_torchrun(launcher) ? torchrun_warning(launcher, launch, environment, mode)
                                             : other_launcher_warning(launcher, launch, mode);
        !warning.empty())
      warnings.push_back(std::move(warning));
  if (!options.verbose.value_or(false))
    return warnings;
  for (const char* proxy : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const auto value = value_of(environment, proxy);
    if (value.empty())
      continue;
    if (value_of(environment, "no_grpc_proxy").empty() && value_of(environment, "no_proxy").empty())
      warnings.push_back(std::string(proxy) + "=" + quoted(value) +
                         " is set: JAX and others that use gRPC will send their rendezvous "
                         "through it; unset it, or name the nodes in no_proxy");
    break; // gRPC takes the first
  }
  return warnings;
}

} // namespace dist_train
