// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/arguments.h"

#include "libstep/core/text.h"
#include "libstep/os/machine.h"

#include <algorithm>
#include <cstdio>

namespace dist_train {

Result<std::map<std::string, std::string>> parse_arguments(const std::vector<std::string>& words,
                                                           const std::vector<std::string>& flags,
                                                           const std::vector<std::string>& valued) {
  auto known = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::map<std::string, std::string> arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    auto equals = word.find('=');
    auto name = word.starts_with("--") ? word.substr(2, equals == word.npos ? equals : equals - 2)
                                       : std::string();
    bool flag = known(flags, name) && equals == word.npos;
    if (!flag && !known(valued, name)) {
      std::vector<std::string_view> names(flags.begin(), flags.end());
      names.insert(names.end(), valued.begin(), valued.end());
      auto guess = nearest(name, names);
      return Error{"unknown argument " + quoted(word) +
                       (guess ? "; did you mean '--" + std::string(*guess) + "'?" : ""),
                   "dist-train --help lists all"};
    }
    std::string value;
    if (!flag && equals != word.npos)
      value = word.substr(equals + 1);
    else if (!flag && i + 1 < words.size())
      value = words[++i];
    if (!flag && value.empty())
      return Error{"--" + name + " wants a value", "dist-train --help lists all"};
    if (!arguments.emplace(name, value).second)
      return Error{"--" + name + " twice", "say it once"};
  }
  return arguments;
}

int complain(const char* command, const Error& error, int code) {
  std::fprintf(stderr, "dist-train %s: %s\n", command, error.message.c_str());
  if (!error.hint.empty())
    std::fprintf(stderr, "dist-train %s:   %s\n", command, error.hint.c_str());
  return code;
}

Result<Machine> machine_argument(const std::map<std::string, std::string>& arguments) {
  auto file = arguments.find("machine");
  return file == arguments.end() ? read_this_machine() : read_machine(file->second);
}

} // namespace dist_train
