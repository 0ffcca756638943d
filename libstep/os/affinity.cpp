// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/affinity.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <sched.h>
#include <set>
#include <string>

namespace dist_train {

namespace {

// First number of the CPU's list of hyper-thread siblings: the same for all of a core.
std::uint32_t core_of(std::uint32_t cpu) {
  std::string path =
      "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
  unsigned first = cpu;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    if (std::fscanf(file, "%u", &first) != 1)
      first = cpu;
    std::fclose(file);
  }
  return first;
}

} // namespace

IdSet allowed_cpus() {
  IdSet cpus;
  // The kernel refuses a buffer smaller than its own mask.
  for (std::size_t count = 1024; count <= (1u << 20); count *= 2) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                         [](cpu_set_t* p) { CPU_FREE(p); });
    if (!set)
      break;
    auto size = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(size, set.get());
    if (sched_getaffinity(0, size, set.get()) == 0) {
      for (std::size_t cpu = 0; cpu < count; ++cpu)
        if (CPU_ISSET_S(cpu, size, set.get()))
          cpus.push_back(static_cast<std::uint32_t>(cpu));
      return cpus;
    }
    if (errno != EINVAL)
      break;
  }
  return cpus;
}

std::uint32_t count_cores(const IdSet& cpus) {
  std::set<std::uint32_t> cores;
  for (auto cpu : cpus)
    cores.insert(core_of(cpu));
  return static_cast<std::uint32_t>(cores.size());
}

std::uint32_t cores_of_task(const Environment& environment, const IdSet& cpus,
                            std::uint32_t local_tasks) {
  auto cores = count_cores(cpus);
  auto found = environment.find("SLURM_CPU_BIND_TYPE");
  bool bound =
      found != environment.end() && !found->second.empty() && !found->second.starts_with("none");
  auto sharing = bound ? 1u : local_tasks;
  return cores == 0 ? 0 : std::max(1u, cores / std::max(1u, sharing));
}

} // namespace dist_train
