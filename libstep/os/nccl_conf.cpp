// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/nccl_conf.h"

#include "libstep/core/text.h"
#include "libstep/os/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace dist_train {

namespace {

constexpr std::size_t kMaxSize = std::size_t{64} << 10;

std::string content(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return "";
  std::string text(kMaxSize, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    auto got = read(fd.get(), text.data() + have, text.size() - have);
    if (got <= 0)
      break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

} // namespace

std::set<std::string> nccl_conf_names(std::string_view text) {
  std::set<std::string> names;
  for (auto line : split(text, '\n')) {
    auto equals = line.find('=');
    if (!line.starts_with('#') && equals != line.npos && equals > 0)
      names.emplace(line.substr(0, equals));
  }
  return names;
}

std::set<std::string> read_nccl_conf(const std::string& home) {
  auto names = nccl_conf_names(content("/etc/nccl.conf"));
  if (home.starts_with('/'))
    names.merge(nccl_conf_names(content(home + "/.nccl.conf")));
  return names;
}

} // namespace dist_train
