// SPDX-License-Identifier: BSD-3-Clause
// A plugin that puts tasks into containers, for the tests alone. What it does to a task, and when,
// is what pyxis does: in task_init the environment of the image comes over the task's own but for
// the names of --container-env, for images of PyTorch RANK and LOCAL_RANK are set from Slurm's,
// and then the task enters a user and a mount namespace in which little is left of the node's /sys,
// /proc/sys and /run. An image is a file of NAME=VALUE lines.
#include "spank/export.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

extern "C" {
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
}
DIST_TRAIN_EXPORT const char plugin_name[] = "container";
DIST_TRAIN_EXPORT const char plugin_type[] = "spank";
DIST_TRAIN_EXPORT const unsigned int plugin_version = SLURM_VERSION_NUMBER;
DIST_TRAIN_EXPORT const unsigned int spank_plugin_version = 1;

namespace {

std::array<char, 4096> image, kept_names; // "" without the option

int keep(std::array<char, 4096>& place, const char* text) {
  if (std::strlen(text) >= place.size())
    return -1;
  std::strcpy(place.data(), text);
  return 0;
}
int on_image(int, const char* text, int) { return keep(image, text); }
int on_names(int, const char* text, int) { return keep(kept_names, text); }

char image_name[] = "container-image", image_argument[] = "FILE", image_usage[] = "[test] an image";
char names_name[] = "container-env", names_argument[] = "NAME[,NAME...]",
     names_usage[] = "[test] variables that the image does not change";
spank_option rows[]{{image_name, image_argument, image_usage, 1, 0, on_image},
                    {names_name, names_argument, names_usage, 1, 0, on_names}};

bool stays(const std::string& name) {
  return ("," + std::string(kept_names.data()) + ",").find("," + name + ",") != std::string::npos;
}

void import_environment(spank_t spank) {
  std::ifstream file(image.data());
  bool pytorch = false;
  for (std::string line; std::getline(file, line);) {
    const auto name = line.substr(0, line.find('='));
    pytorch = pytorch || name == "PYTORCH_VERSION";
    if (name.size() < line.size() && !stays(name))
      spank_setenv(spank, name.c_str(), line.c_str() + name.size() + 1, 1);
  }
  const std::pair<const char*, const char*> ranks[]{{"SLURM_PROCID", "RANK"},
                                                    {"SLURM_LOCALID", "LOCAL_RANK"}};
  std::array<char, 64> value{};
  for (const auto& [from, to] : ranks)
    if (pytorch && spank_getenv(spank, from, value.data(), value.size()) == ESPANK_SUCCESS)
      spank_setenv(spank, to, value.data(), 1);
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

bool enter_container() {
  const auto map = [](auto id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  const auto users = map(geteuid()), groups = map(getegid());
  // A process that gave up root has a /proc that is root's, until it says otherwise or calls exec.
  prctl(PR_SET_DUMPABLE, 1);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !write_file("/proc/self/setgroups", "deny") ||
      !write_file("/proc/self/uid_map", users) || !write_file("/proc/self/gid_map", groups))
    return false;
  for (const char* place : {"/sys", "/proc/sys", "/run"})
    if (mount("image", place, "tmpfs", 0, nullptr) != 0)
      return false;
  return write_file("/run/container", image.data());
}

} // namespace

DIST_TRAIN_EXPORT int slurm_spank_init(spank_t spank, int, char**) {
  if (spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_REMOTE)
    for (auto& row : rows)
      if (spank_option_register(spank, &row) != ESPANK_SUCCESS)
        return -1;
  return 0;
}

DIST_TRAIN_EXPORT int slurm_spank_task_init(spank_t spank, int, char**) {
  if (image[0] == '\0')
    return 0;
  import_environment(spank);
  if (enter_container())
    return 0;
  slurm_error("container: cannot enter: %s", std::strerror(errno));
  return -1;
}
