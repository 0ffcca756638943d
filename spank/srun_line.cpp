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
      } else if (in_options) {
        if (argument == "--" || argument.size() < 2 || argument[0] != '-') {
          in_options = false;
          auto program = i + (argument == "--" ? 1 : 0);
          if (program < arguments.size() && is_launcher_daemon(arguments[program]))
            line_.by_launcher = true;
        } else if (argument[1] == '-' ? long_option(argument.substr(2))
                                      : short_options(argument.substr(1))) {
          if (++i < arguments.size() && cpu_bind_follows_)
            line_.cpu_bind = cpu_bind_of(arguments[i]);
          cpu_bind_follows_ = false;
        }
      }
    }
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
    if (abbreviates(name, "cpu-bind", 5) || abbreviates(name, "cpu_bind", 5)) {
      cpu_bind_follows_ = equals == option.npos;
      if (!cpu_bind_follows_)
        line_.cpu_bind = cpu_bind_of(option.substr(equals + 1));
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
      if (kShortWithValue.find(letters[i]) != letters.npos)
        return i + 1 == letters.size();
    }
    return false;
  }

  SrunLine line_;
  bool cpu_bind_follows_ = false; // as the next argument
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
