// SPDX-License-Identifier: BSD-3-Clause
#include "spank/srun_line.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace dist_train {

namespace {

constexpr std::string_view kShortWithValue = "ABcCdDegGiJLmMnNopPqrStTUwWx";
constexpr std::string_view kShortWithOptionalValue = "IK";

// Long options whose next argument is not their value. All others take one.
constexpr std::string_view kLongWithoutValue[]{"async",
                                               "bcast",
                                               "compress",
                                               "contiguous",
                                               "debugger-test",
                                               "dist-train",
                                               "disable-status",
                                               "exact",
                                               "exclusive",
                                               "external-launcher",
                                               "get-user-env",
                                               "help",
                                               "hold",
                                               "immediate",
                                               "interactive",
                                               "join",
                                               "kill-on-bad-exit",
                                               "label",
                                               "multi-prog",
                                               "nice",
                                               "no-allocate",
                                               "no-bell",
                                               "no-kill",
                                               "no-rotate",
                                               "oom-kill-step",
                                               "overcommit",
                                               "overlap",
                                               "oversubscribe",
                                               "preserve-env",
                                               "propagate",
                                               "pty",
                                               "quiet",
                                               "quit-on-interrupt",
                                               "reboot",
                                               "resv-ports",
                                               "send-libs",
                                               "share",
                                               "spread-job",
                                               "test-only",
                                               "unbuffered",
                                               "usage",
                                               "use-min-nodes",
                                               "verbose",
                                               "version",
                                               "whole",
                                               "x11"};

// What mpirun (Open MPI, MPICH, Intel MPI) lets srun start on each node.
constexpr std::string_view kLauncherDaemons[]{"orted", "prted", "hydra_bstrap_proxy",
                                              "hydra_pmi_proxy"};

bool is_launcher_daemon(std::string_view program) {
  auto name = program.substr(program.find_last_of('/') + 1); // npos + 1 is 0
  return std::find(std::begin(kLauncherDaemons), std::end(kLauncherDaemons), name) !=
         std::end(kLauncherDaemons);
}

// getopt_long takes an unambiguous beginning for the whole name.
bool abbreviates(std::string_view name, std::string_view full, std::size_t least) {
  return name.size() >= least && full.starts_with(name);
}

class Reader {
public:
  SrunLine read(const std::vector<std::string>& arguments) {
    bool in_options = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::string_view argument = arguments[i];
      if (argument == ":") {
        in_options = true; // the next component's options
        counts_.several_components = true;
      } else if (in_options) {
        if (argument == "--" || argument.size() < 2 || argument[0] != '-') {
          in_options = false;
          auto program = i + (argument == "--" ? 1 : 0);
          if (program < arguments.size() && is_launcher_daemon(arguments[program]))
            line_.by_launcher = true;
        } else if (argument[1] == '-' ? long_option(argument.substr(2))
                                      : short_options(argument.substr(1))) {
          if (++i < arguments.size())
            take_value(arguments[i]);
          follows_ = Follows::kOther;
        }
      }
    }
    if (counts_.several_components)
      return line_;
    line_.nodes = counts_.nodes;
    line_.tasks =
        counts_.tasks > 0 ? counts_.tasks : counts_.per_node * std::max(1u, counts_.nodes);
    if (counts_.per_node > 0 && counts_.nodes == 0)
      line_.nodes = counts_.tasks == 0 ? 1 : 0; // srun's own choice
    return line_;
  }

private:
  // Both tell whether the next argument is the option's value.
  bool long_option(std::string_view option) {
    auto equals = option.find('=');
    auto name = option.substr(0, equals);
    if (abbreviates(name, "dist-train", 6)) {
      line_.has_dist_train = true;
      line_.dist_train = equals == option.npos ? "" : option.substr(equals + 1);
    }
    if (abbreviates(name, "kill-on-bad-exit", 1))
      line_.kills_on_bad_exit = true;
    follows_ = abbreviates(name, "cpu-bind", 5) || abbreviates(name, "cpu_bind", 5)
                   ? Follows::kCpuBind
               : abbreviates(name, "nodes", 4)            ? Follows::kNodes
               : name == "ntasks"                         ? Follows::kTasks
               : abbreviates(name, "ntasks-per-node", 12) ? Follows::kTasksPerNode
                                                          : Follows::kOther;
    if (equals != option.npos) {
      take_value(option.substr(equals + 1));
      follows_ = Follows::kOther;
    }
    if (abbreviates(name, "interactive", 3))
      line_.interactive = true;
    if (abbreviates(name, "external-launcher", 3))
      line_.by_launcher = true;
    return equals == option.npos &&
           std::none_of(std::begin(kLongWithoutValue), std::end(kLongWithoutValue),
                        [&](std::string_view full) { return abbreviates(name, full, 3); });
  }

  bool short_options(std::string_view letters) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
      if (letters[i] == 'K')
        line_.kills_on_bad_exit = true;
      if (kShortWithOptionalValue.find(letters[i]) != letters.npos)
        return false; // the rest of the argument is its value
      if (kShortWithValue.find(letters[i]) == letters.npos)
        continue;
      follows_ = letters[i] == 'N'   ? Follows::kNodes
                 : letters[i] == 'n' ? Follows::kTasks
                                     : Follows::kOther;
      if (i + 1 == letters.size())
        return true;
      take_value(letters.substr(i + 1));
      return false;
    }
    return false;
  }

  // Of the option just read.
  void take_value(std::string_view value) {
    switch (follows_) {
    case Follows::kCpuBind:
      line_.cpu_bind = cpu_bind_of(value);
      break;
    case Follows::kNodes: // of MIN-MAX nothing is known yet
      counts_.nodes = count_of(value);
      break;
    case Follows::kTasks:
      counts_.tasks = count_of(value);
      break;
    case Follows::kTasksPerNode:
      counts_.per_node = count_of(value);
      break;
    case Follows::kOther:
      break;
    }
  }

  static std::uint32_t count_of(std::string_view value) {
    constexpr std::uint32_t kMost = 1u << 15; // so that a product of two is one, too
    return static_cast<std::uint32_t>(parse_number(value, kMost).value_or(0));
  }

  enum class Follows { kOther, kCpuBind, kNodes, kTasks, kTasksPerNode };
  struct Counts {
    std::uint32_t nodes = 0, tasks = 0, per_node = 0;
    bool several_components = false;
  };

  SrunLine line_;
  Counts counts_;
  Follows follows_ = Follows::kOther; // an option whose value is the next argument
};

} // namespace

CpuBind cpu_bind_of(std::string_view value) {
  auto bind = CpuBind::kUnsaid;
  for (auto word : split(value, ',')) {
    std::string lower(word);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (lower == "none" || lower == "no" || lower == "n")
      bind = CpuBind::kNone;
    else if (!lower.empty() && lower != "quiet" && lower != "q" && lower != "verbose" &&
             lower != "v")
      return CpuBind::kBinds;
  }
  return bind;
}

SrunLine read_srun_line(const std::vector<std::string>& arguments) {
  return Reader().read(arguments);
}

std::vector<std::string> own_arguments() {
  std::string text;
  if (FILE* file = std::fopen("/proc/self/cmdline", "re")) {
    std::array<char, 4096> block;
    while (auto got = std::fread(block.data(), 1, block.size(), file))
      text.append(block.data(), got);
    std::fclose(file);
  }
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < text.size();) {
    auto end = std::min(text.find('\0', begin), text.size());
    arguments.emplace_back(text, begin, end - begin);
    begin = end + 1;
  }
  if (!arguments.empty())
    arguments.erase(arguments.begin());
  return arguments;
}

} // namespace dist_train
