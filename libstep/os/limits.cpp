// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/limits.h"

#include "libstep/core/node_facts.h"

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <string_view>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <vector>

namespace dist_train {

namespace {

constexpr std::size_t kMaxDevices = 64; // of a node; more are not listed
constexpr std::size_t kMaxDeviceName = 32;

std::uint64_t value_of(rlim_t limit) { return limit == RLIM_INFINITY ? kUnlimited : limit; }

template <typename Resource>
Limit limit_of(Resource resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0)
    return {};
  return {value_of(limit.rlim_cur), value_of(limit.rlim_max)};
}

bool is_device_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxDeviceName &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == name.npos;
}

} // namespace

Limit open_files_limit() { return limit_of(RLIMIT_NOFILE); }

Limit locked_memory_limit() { return limit_of(RLIMIT_MEMLOCK); }

std::uint64_t filesystem_size(const char* path) {
  struct statvfs info;
  if (statvfs(path, &info) != 0)
    return 0;
  return std::uint64_t{info.f_blocks} * info.f_frsize;
}

std::string rdma_devices(const char* folder) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder), closedir);
  std::vector<std::string> names;
  while (const dirent* entry = dir ? readdir(dir.get()) : nullptr)
    if (names.size() < kMaxDevices && is_device_name(entry->d_name))
      names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ",") + name;
  return text;
}

GpuVendor gpu_vendor() {
  if (access("/proc/driver/nvidia", F_OK) == 0)
    return GpuVendor::kNvidia;
  return access("/sys/class/kfd/kfd", F_OK) == 0 ? GpuVendor::kAmd : GpuVendor::kUnknown;
}

} // namespace dist_train
