// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/affinity.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sched.h>
#include <set>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

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

constexpr std::size_t kMaxCpus = 1u << 16; // more than any kernel is built for

using CpuSet = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;

// Empty where there is no memory for it.
CpuSet set_of(std::size_t count) {
  CpuSet set(CPU_ALLOC(count), [](cpu_set_t* p) { CPU_FREE(p); });
  if (set)
    CPU_ZERO_S(CPU_ALLOC_SIZE(count), set.get());
  return set;
}

} // namespace

IdSet reachable_cpus() {
  auto before = allowed_cpus();
  auto all = set_of(kMaxCpus);
  if (before.empty() || !all)
    return {};
  auto size = CPU_ALLOC_SIZE(kMaxCpus);
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu)
    CPU_SET_S(cpu, size, all.get());
  // The kernel takes what the cpuset admits of it.
  if (sched_setaffinity(0, size, all.get()) != 0)
    return before;
  auto reach = allowed_cpus();
  return bind_to_cpus(before) ? reach : IdSet{};
}

Result<void> bind_to_cpus(const IdSet& cpus) {
  auto set = set_of(kMaxCpus);
  if (cpus.empty() || cpus.back() >= kMaxCpus || !set)
    return Error{"no mask can be made of CPUs '" + id_set_text(cpus) + "'"};
  auto size = CPU_ALLOC_SIZE(kMaxCpus);
  for (auto cpu : cpus)
    CPU_SET_S(cpu, size, set.get());
  if (sched_setaffinity(0, size, set.get()) != 0)
    return Error{"cannot bind to CPUs " + id_set_text(cpus) + ": " + std::strerror(errno)};
  return {};
}

Result<void> prefer_memory_of(const IdSet& numa) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long), kNodes = 1024;
  constexpr int kPreferred = 1, kPreferredMany = 5; // linux/mempolicy.h
  std::array<unsigned long, kNodes / kBits> mask{};
  for (auto node : numa)
    if (node < kNodes)
      mask[node / kBits] |= 1ul << (node % kBits);
  auto set = [&](int mode) { return syscall(SYS_set_mempolicy, mode, mask.data(), kNodes + 1); };
  if (numa.size() > 1 && set(kPreferredMany) == 0) // Linux 5.15 and later
    return {};
  mask = {};
  if (!numa.empty() && numa.front() < kNodes)
    mask[numa.front() / kBits] |= 1ul << (numa.front() % kBits);
  if (numa.empty() || set(kPreferred) != 0)
    return Error{"cannot prefer memory of NUMA node " + id_set_text(numa) + ": " +
                 std::strerror(errno)};
  return {};
}

IdSet allowed_cpus() {
  IdSet cpus;
  // The kernel refuses a buffer smaller than its own mask.
  for (std::size_t count = 1024; count <= (1u << 20); count *= 2) {
    auto set = set_of(count);
    if (!set)
      break;
    auto size = CPU_ALLOC_SIZE(count);
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

IdSet allowed_memory() {
  std::array<char, 4096> line{};
  char* found = nullptr;
  if (FILE* file = std::fopen("/proc/self/status", "re")) {
    constexpr const char* kName = "Mems_allowed_list:";
    while (!found && std::fgets(line.data(), line.size(), file))
      if (std::strncmp(line.data(), kName, std::strlen(kName)) == 0)
        found = line.data() + std::strlen(kName);
    std::fclose(file);
  }
  std::string_view text = found ? found : "";
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  auto nodes = parse_id_set(text.substr(0, text.find('\n')));
  return nodes ? *std::move(nodes) : IdSet{};
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
  auto type = value_of(environment, "SLURM_CPU_BIND_TYPE");
  bool bound = !type.empty() && !type.starts_with("none");
  auto sharing = bound ? 1u : local_tasks;
  return cores == 0 ? 0 : std::max(1u, cores / std::max(1u, sharing));
}

} // namespace dist_train
