// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/placement_parts.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace dist_train {

namespace {

constexpr std::uint32_t kNowhere = ~0u;

// Membership of small numbers, in one step.
class Members {
public:
  explicit Members(const IdSet& set) : in_(set.empty() ? 0 : set.back() + std::size_t{1}) {
    for (auto id : set)
      in_[id] = true;
  }
  bool has(std::uint32_t id) const { return id < in_.size() && in_[id]; }

private:
  std::vector<bool> in_;
};

// A core of the step: its CPUs that are allowed.
struct UsableCore {
  IdSet cpus;
  std::uint32_t package = 0;
  std::uint32_t numa = kNowhere;
};

using Cores = std::vector<std::size_t>; // indices of UsableCore, ascending

// Tasks that compete for the same cores.
struct Cluster {
  std::vector<std::size_t> tasks; // ascending
  Cores cores;
  std::set<std::uint32_t> packages; // that its tasks are next to, allowed or not
  std::size_t nodes = 1;            // NUMA nodes it has, its own as one
  CoreSource source = CoreSource::kLocal;
};

std::vector<UsableCore> usable_cores(const Machine& machine, const IdSet& allowed) {
  std::vector<std::uint32_t> numa_of_cpu;
  for (const auto& node : machine.numa_nodes) {
    if (node.memory != Memory::kDram || node.cpus.empty())
      continue;
    numa_of_cpu.resize(std::max<std::size_t>(numa_of_cpu.size(), node.cpus.back() + std::size_t{1}),
                       kNowhere);
    for (auto cpu : node.cpus)
      numa_of_cpu[cpu] = node.id;
  }
  Members may(allowed);
  std::vector<UsableCore> cores;
  for (const auto& core : machine.cores) {
    UsableCore usable{{}, core.package};
    for (auto cpu : core.cpus)
      if (may.has(cpu))
        usable.cpus.push_back(cpu);
    if (usable.cpus.empty())
      continue;
    auto first = usable.cpus.front();
    usable.numa = first < numa_of_cpu.size() ? numa_of_cpu[first] : kNowhere;
    cores.push_back(std::move(usable));
  }
  // CPUs that the machine's description lacks are still the step's.
  if (cores.empty())
    for (auto cpu : allowed)
      cores.push_back({{cpu}, 0, kNowhere});
  return cores;
}

std::set<std::uint32_t> packages_of(const Machine& machine, const IdSet& cpus) {
  Members in(cpus);
  std::set<std::uint32_t> packages;
  for (const auto& core : machine.cores)
    if (std::any_of(core.cpus.begin(), core.cpus.end(), [&](auto cpu) { return in.has(cpu); }))
      packages.insert(core.package);
  return packages;
}

Cores cores_in(const std::vector<UsableCore>& cores, const IdSet& cpus) {
  Members in(cpus);
  Cores found;
  for (std::size_t i = 0; i < cores.size(); ++i)
    if (std::any_of(cores[i].cpus.begin(), cores[i].cpus.end(),
                    [&](auto cpu) { return in.has(cpu); }))
      found.push_back(i);
  return found;
}

void add_cores(Cores& cores, const Cores& more) {
  Cores all;
  std::set_union(cores.begin(), cores.end(), more.begin(), more.end(), std::back_inserter(all));
  cores = std::move(all);
}

void absorb(Cluster& cluster, Cluster& other) {
  std::vector<std::size_t> tasks;
  std::merge(cluster.tasks.begin(), cluster.tasks.end(), other.tasks.begin(), other.tasks.end(),
             std::back_inserter(tasks));
  cluster.tasks = std::move(tasks);
  add_cores(cluster.cores, other.cores);
  cluster.packages.merge(other.packages);
  other = {};
}

// The planner's state: who competes where, and which cores nobody is next to.
struct Field {
  std::vector<UsableCore> cores;
  std::vector<Cores> near; // by task
  std::vector<Cluster> clusters;
  std::vector<bool> spare; // by core
};

Field make_field(const Machine& machine, const IdSet& allowed, const std::vector<IdSet>& local) {
  Field field;
  field.cores = usable_cores(machine, allowed);
  field.spare.assign(field.cores.size(), true);
  // Many tasks are next to the same CPUs; the first of them does the work.
  for (std::size_t task = 0; task < local.size(); ++task) {
    auto first = static_cast<std::size_t>(std::find(local.begin(), local.end(), local[task]) -
                                          local.begin());
    field.near.push_back(first < task ? field.near[first] : cores_in(field.cores, local[task]));
    Cluster cluster{{task}, field.near[task], {}};
    if (first == task)
      cluster.packages = packages_of(machine, local[task]);
    for (auto& other : field.clusters) {
      Cores both;
      std::set_intersection(other.cores.begin(), other.cores.end(), cluster.cores.begin(),
                            cluster.cores.end(), std::back_inserter(both));
      bool same = std::find(other.tasks.begin(), other.tasks.end(), first) != other.tasks.end();
      if (same || !both.empty())
        absorb(cluster, other);
    }
    std::erase_if(field.clusters, [](const Cluster& c) { return c.tasks.empty(); });
    field.clusters.push_back(std::move(cluster));
    for (auto core : field.near[task])
      field.spare[core] = false;
  }
  std::sort(field.clusters.begin(), field.clusters.end(),
            [](const Cluster& a, const Cluster& b) { return a.tasks < b.tasks; });
  return field;
}

std::uint32_t gap(std::uint32_t a, std::uint32_t b) { return a > b ? a - b : b - a; }

// The spare cores of the package's NUMA node nearest to the cluster; none if there is none.
Cores nearest_spare(const Field& field, const Cluster& cluster) {
  std::uint32_t home = field.cores[cluster.cores.front()].numa, best = kNowhere;
  for (std::size_t i = 0; i < field.cores.size(); ++i)
    if (field.spare[i] && field.cores[i].package == *cluster.packages.begin() &&
        (best == kNowhere || gap(field.cores[i].numa, home) < gap(best, home)))
      best = field.cores[i].numa;
  Cores found;
  for (std::size_t i = 0; i < field.cores.size(); ++i)
    if (field.spare[i] && best != kNowhere && field.cores[i].numa == best &&
        field.cores[i].package == *cluster.packages.begin())
      found.push_back(i);
  return found;
}

// Tasks that share a node take the nodes of their package that nobody is next to, in turns and the
// nearest first, until each task has one.
void spill(Field& field) {
  for (bool again = true; again;) {
    again = false;
    for (auto& cluster : field.clusters) {
      if (cluster.nodes >= cluster.tasks.size() || cluster.packages.size() != 1 ||
          cluster.cores.empty())
        continue;
      auto more = nearest_spare(field, cluster);
      if (more.empty())
        continue;
      for (auto core : more)
        field.spare[core] = false;
      add_cores(cluster.cores, more);
      ++cluster.nodes;
      cluster.source = CoreSource::kSpilled;
      again = true;
    }
  }
}

bool starved(const Cluster& cluster) { return cluster.cores.size() < cluster.tasks.size(); }

// All clusters and spare cores of a package (of the machine: kNowhere) as one, if that has a core
// for each task.
bool pool(Field& field, std::uint32_t package) {
  auto inside = [&](const Cluster& c) {
    return package == kNowhere || (c.packages.size() == 1 && *c.packages.begin() == package);
  };
  Cluster all;
  all.source = CoreSource::kBorrowed;
  for (std::size_t i = 0; i < field.cores.size(); ++i)
    if (field.spare[i] && (package == kNowhere || field.cores[i].package == package))
      all.cores.push_back(i);
  std::size_t tasks = 0;
  Cores cores = all.cores;
  for (const auto& cluster : field.clusters)
    if (inside(cluster)) {
      tasks += cluster.tasks.size();
      add_cores(cores, cluster.cores);
    }
  if (cores.size() < tasks)
    return false;
  for (auto core : all.cores)
    field.spare[core] = false;
  for (auto& cluster : field.clusters)
    if (inside(cluster))
      absorb(all, cluster);
  std::erase_if(field.clusters, [](const Cluster& c) { return c.tasks.empty(); });
  field.clusters.push_back(std::move(all));
  return true;
}

void feed_starved(Field& field) {
  std::set<std::uint32_t> packages;
  for (const auto& cluster : field.clusters)
    if (starved(cluster) && cluster.packages.size() == 1)
      packages.insert(*cluster.packages.begin());
  for (auto package : packages)
    pool(field, package);
  if (std::any_of(field.clusters.begin(), field.clusters.end(), starved))
    pool(field, kNowhere);
}

CoreSlice slice_of(const Field& field, const Cores& cores, CoreSource source) {
  CoreSlice slice{{}, static_cast<std::uint32_t>(cores.size()), source};
  for (auto core : cores)
    slice.cpus.insert(slice.cpus.end(), field.cores[core].cpus.begin(),
                      field.cores[core].cpus.end());
  std::sort(slice.cpus.begin(), slice.cpus.end());
  return slice;
}

// Moves up to `count` cores from `from` that are free to `to`.
void take(Cores& to, const Cores& from, std::vector<bool>& free, std::size_t count) {
  for (auto core : from) {
    if (count == 0)
      return;
    if (!free[core])
      continue;
    free[core] = false;
    to.push_back(core);
    --count;
  }
}

void share_out(const Field& field, const Cluster& cluster, std::vector<CoreSlice>& slices) {
  auto count = cluster.tasks.size();
  std::vector<std::size_t> order(count); // positions in cluster.tasks
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return field.near[cluster.tasks[a]].size() < field.near[cluster.tasks[b]].size();
  });
  std::vector<std::size_t> quota(count, cluster.cores.size() / count);
  for (std::size_t i = 0; i < cluster.cores.size() % count; ++i)
    ++quota[i];
  std::vector<bool> free(field.cores.size(), false);
  for (auto core : cluster.cores)
    free[core] = true;
  std::vector<Cores> got(count);
  // Those with the fewest cores next to them choose first; then what is still missing, from near.
  for (auto i : order)
    take(got[i], field.near[cluster.tasks[i]], free, quota[i]);
  for (auto i : order) {
    if (got[i].size() == quota[i])
      continue;
    const auto& near = field.near[cluster.tasks[i]];
    auto package = cluster.packages.size() == 1 ? *cluster.packages.begin()
                   : near.empty()               ? kNowhere
                                                : field.cores[near.front()].package;
    auto numa = near.empty() ? 0 : field.cores[near.front()].numa;
    Cores rest = cluster.cores;
    std::stable_sort(rest.begin(), rest.end(), [&](std::size_t a, std::size_t b) {
      const auto &left = field.cores[a], &right = field.cores[b];
      return std::pair(left.package != package, gap(left.numa, numa)) <
             std::pair(right.package != package, gap(right.numa, numa));
    });
    auto own = got[i].size();
    take(got[i], rest, free, quota[i] - own);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto& near = field.near[cluster.tasks[i]];
    bool all_near = std::all_of(got[i].begin(), got[i].end(), [&](std::size_t core) {
      return std::binary_search(near.begin(), near.end(), core);
    });
    slices[cluster.tasks[i]] =
        slice_of(field, got[i], all_near ? CoreSource::kLocal : cluster.source);
  }
}

// Too few cores for the tasks: they have them together.
void share(const Field& field, const Cluster& cluster, std::vector<CoreSlice>& slices) {
  auto cores = cluster.cores;
  for (std::size_t i = 0; cores.empty() && i < field.cores.size(); ++i)
    if (cluster.packages.size() == 1 && field.cores[i].package == *cluster.packages.begin()) {
      for (; i < field.cores.size(); ++i)
        if (field.cores[i].package == *cluster.packages.begin())
          cores.push_back(i);
    }
  if (cores.empty()) {
    cores.resize(field.cores.size());
    std::iota(cores.begin(), cores.end(), 0);
  }
  for (auto task : cluster.tasks)
    slices[task] = slice_of(field, cores, CoreSource::kShared);
}

} // namespace

std::vector<CoreSlice> slice_cores(const Machine& machine, const IdSet& allowed,
                                   const std::vector<IdSet>& local) {
  auto field = make_field(machine, allowed, local);
  spill(field);
  feed_starved(field);
  std::vector<CoreSlice> slices(local.size());
  for (const auto& cluster : field.clusters)
    (starved(cluster) ? share : share_out)(field, cluster, slices);
  return slices;
}

} // namespace dist_train
