// SPDX-License-Identifier: BSD-3-Clause
// What a user is told about the nodes of a step, and that nothing is said where nothing is wrong.
#include "libstep/core/findings.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kGiB = 1024 * kMiB;

NodeFacts healthy(std::string name) {
  NodeFacts node;
  node.node = std::move(name);
  node.plugin_version = "0.1.0";
  node.local_ranks = 8;
  node.gpus = 8;
  node.hcas = "mlx5_0,mlx5_1";
  node.open_files = 524'288;
  node.open_files_hard = 524'288;
  node.locked_memory = kUnlimited;
  node.shared_memory = 512 * kGiB;
  node.task_cores = 12;
  node.task_cpus = 24;
  node.cpus_per_task = 24;
  return node;
}

std::vector<NodeFacts> four_nodes() {
  return {healthy("gpu01"), healthy("gpu02"), healthy("gpu03"), healthy("gpu04")};
}

// The one finding about these nodes.
Finding only(const std::vector<NodeFacts>& nodes, const char* srun = "0.1.0") {
  std::uint32_t world = 0;
  for (const auto& node : nodes)
    world += node.local_ranks;
  auto found = findings(nodes, world, srun);
  EXPECT_EQ(found.size(), 1u);
  for (const auto& finding : found) {
    EXPECT_FALSE(finding.hint.empty());
    EXPECT_EQ((finding.text + finding.hint).find('\n'), std::string::npos);
  }
  return found.empty() ? Finding{} : found.front();
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

TEST(Findings, NothingIsSaidWhereNothingIsWrong) {
  EXPECT_TRUE(findings(four_nodes(), 32, "0.1.0").empty());
  EXPECT_TRUE(findings({}, 0, "").empty());
  NodeFacts unknown; // as of a node whose plugin says less
  unknown.local_ranks = 8;
  EXPECT_TRUE(findings({unknown, unknown}, 16, "").empty());
}

TEST(Findings, ANodeThatLostAGpuEndsTheStep) {
  auto nodes = four_nodes();
  nodes[2].gpus = 7;
  auto finding = only(nodes);
  EXPECT_EQ(finding.text, "gpu03 sees 7 GPUs, the others 8; too few for the tasks of gpu03");
  EXPECT_TRUE(finding.fatal);
  // Said, but no reason to end a step whose tasks share GPUs on purpose.
  auto shared = findings(nodes, 32, "0.1.0", true);
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].text, "gpu03 sees 7 GPUs, the others 8");
  EXPECT_FALSE(shared[0].fatal);
}

TEST(Findings, GpuCountsThatDifferUnderATaskEachAreSaid) {
  auto nodes = four_nodes();
  for (auto& node : nodes) {
    node.local_ranks = 1;
    node.task_cores = node.task_cpus = 96;
  }
  nodes[0].gpus = 4;
  nodes[2].gpus = 7;
  auto finding = only(nodes);
  EXPECT_EQ(finding.text, "gpu01 sees 4 GPUs, gpu03 7, the others 8");
  EXPECT_FALSE(finding.fatal);
  nodes.resize(2);
  EXPECT_EQ(only(nodes).text, "gpu02 sees 8 GPUs, gpu01 4");
}

TEST(Findings, TasksThatFollowUnevenGpusAreMeantSo) {
  auto nodes = four_nodes();
  nodes.resize(3);
  for (std::uint32_t i = 0; i < 3; ++i)
    nodes[i].gpus = nodes[i].local_ranks = i + 2;
  EXPECT_TRUE(findings(nodes, 9, "0.1.0").empty());
}

TEST(Findings, MoreTasksThanGpusOnEveryNode) {
  auto nodes = four_nodes();
  for (auto& node : nodes)
    node.gpus = 4;
  auto finding = only(nodes);
  EXPECT_TRUE(has(finding.text, "8 tasks share 4 GPUs on gpu01, gpu02, gpu03, gpu04"));
  EXPECT_TRUE(has(finding.text, "Duplicate GPU"));
  EXPECT_TRUE(has(finding.hint, "--gpus-per-node=8"));
  EXPECT_TRUE(has(finding.hint, "--dist-train=oversubscribe"));
  EXPECT_FALSE(finding.fatal);
  EXPECT_TRUE(findings(nodes, 32, "0.1.0", true).empty());
  auto found = findings(nodes, 32, "0.1.0", true, Mode::kDeepspeed);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].fatal);
  EXPECT_TRUE(has(found[0].text, "mode deepspeed takes the GPU at LOCAL_RANK, which not all have"));
}

TEST(Findings, IsolatedGpusNameTheFlagsThatWork) {
  auto nodes = four_nodes();
  for (auto& node : nodes) {
    node.gpus = 1;
    node.gpus_isolated = true;
  }
  auto finding = only(nodes);
  EXPECT_TRUE(has(finding.text, "gpu01, gpu02, gpu03, gpu04"));
  EXPECT_TRUE(has(finding.text, "set_device(LOCAL_RANK)"));
  EXPECT_FALSE(finding.fatal);
  for (const char* flag : {"--gpus-per-node", "--gpu-bind=none", "--gres-flags=allow-task-sharing"})
    EXPECT_TRUE(has(finding.hint, flag)) << flag;
  for (const auto mode : {Mode::kLightning, Mode::kDeepspeed, Mode::kMegatron}) {
    auto found = findings(nodes, 32, "0.1.0", false, mode);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].fatal);
    EXPECT_TRUE(
        has(found[0].text, std::string("mode ") + to_text(mode) +
                               " takes the GPU at LOCAL_RANK, which fails beyond the first"));
  }
  // JAX is told which one.
  auto found = findings(nodes, 32, "0.1.0", false, Mode::kJax);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].fatal);
  EXPECT_FALSE(has(found[0].text, "LOCAL_RANK"));
}

TEST(Findings, RdmaDevicesThatDiffer) {
  auto nodes = four_nodes();
  nodes[1].hcas = "mlx5_0";
  EXPECT_EQ(only(nodes).text, "RDMA devices differ: gpu02 has mlx5_0, the others mlx5_0 mlx5_1");
  nodes[1].hcas = "";
  EXPECT_EQ(only(nodes).text, "RDMA devices differ: gpu02 has none, the others mlx5_0 mlx5_1");
}

TEST(Findings, PluginVersionsThatDiffer) {
  auto nodes = four_nodes();
  nodes[3].plugin_version = "0.2.0";
  EXPECT_EQ(only(nodes).text, "plugin versions differ: gpu04 has 0.2.0, the others 0.1.0");
  EXPECT_FALSE(only(nodes).fatal);
  nodes[3].plugin_version = "0.1.0";
  EXPECT_EQ(only(nodes, "0.0.9").text,
            "plugin versions differ: srun's host has 0.0.9, the others 0.1.0");
  EXPECT_TRUE(findings(nodes, 32, "").empty());
}

TEST(Findings, TooFewOpenFilesForTheRanks) {
  auto nodes = four_nodes();
  nodes[0].open_files = nodes[1].open_files = 1024;
  auto finding = only(nodes);
  EXPECT_TRUE(has(finding.text, "a task may open 1024 files on gpu01, gpu02; 32 ranks may need "
                                "2048"));
  EXPECT_TRUE(has(finding.hint, "limits=raise (the hard limit is 524288)"));
  nodes[1].open_files_hard = 1536;
  EXPECT_TRUE(has(only(nodes).hint, "LimitNOFILE= in slurmd's unit"));
  nodes[1].open_files_hard = 1024;
  EXPECT_TRUE(has(only(nodes).hint, "because the hard limit is 1024 only"));
  // Just enough.
  for (auto& node : nodes)
    node.open_files = 2048;
  EXPECT_TRUE(findings(nodes, 32, "0.1.0").empty());
}

TEST(Findings, LockedMemoryMattersWhereThereAreRdmaDevices) {
  auto nodes = four_nodes();
  nodes[0].locked_memory = 64 * 1024;
  nodes[2].locked_memory = 8 * kMiB;
  auto finding = only(nodes);
  EXPECT_TRUE(has(finding.text, "may lock 64 KiB of memory on gpu01, gpu03"));
  EXPECT_TRUE(has(finding.hint, "LimitMEMLOCK=infinity"));
  EXPECT_TRUE(has(finding.hint, "PropagateResourceLimitsExcept=MEMLOCK"));
  for (auto& node : nodes)
    node.hcas = "";
  EXPECT_TRUE(findings(nodes, 32, "0.1.0").empty());
}

TEST(Findings, SharedMemoryTooSmallForTheTasks) {
  auto nodes = four_nodes();
  nodes[1].shared_memory = 64 * kMiB;
  auto finding = only(nodes);
  EXPECT_TRUE(has(finding.text, "/dev/shm holds 64 MiB on gpu02; 8 tasks may need 512 MiB"));
  EXPECT_TRUE(has(finding.hint, "remount,size="));
  nodes[1].shared_memory = 512 * kMiB;
  EXPECT_TRUE(findings(nodes, 32, "0.1.0").empty());
}

TEST(Findings, CpusPerTaskThatSrunDidNotInherit) {
  auto nodes = four_nodes();
  for (auto& node : nodes)
    node.task_cores = node.task_cpus = 1;
  auto finding = only(nodes); // the starved data loader is the same fault
  EXPECT_TRUE(has(finding.text, "SLURM_CPUS_PER_TASK is 24"));
  EXPECT_TRUE(has(finding.text, "may use 1 CPU"));
  EXPECT_TRUE(has(finding.hint, "srun -c 24"));
  EXPECT_TRUE(has(finding.hint, "SRUN_CPUS_PER_TASK=24"));
}

TEST(Findings, OneCoreStarvesTheDataLoaderOfAGpu) {
  auto nodes = four_nodes();
  for (auto& node : nodes) {
    node.task_cores = node.task_cpus = 1;
    node.cpus_per_task = 0;
  }
  EXPECT_TRUE(has(only(nodes).text, "has 1 core for 1 GPU,"));
  for (auto& node : nodes)
    node.gpus = 0; // nothing to starve
  EXPECT_TRUE(findings(nodes, 32, "0.1.0").empty());
  // One task with eight GPUs wants 16.
  for (auto& node : nodes) {
    node.gpus = 8;
    node.local_ranks = 1;
    node.task_cores = node.task_cpus = 15;
  }
  EXPECT_TRUE(has(only(nodes).text, "has 15 cores for 8 GPUs"));
}

TEST(Findings, ManyNodesAreOneShortLine) {
  std::vector<NodeFacts> nodes;
  for (int i = 0; i < 5000; ++i) {
    nodes.push_back(healthy("gpu" + std::to_string(i)));
    nodes.back().hcas = "mlx5_" + std::to_string(i / 2);
    nodes.back().open_files = 1024;
  }
  for (const auto& finding : findings(nodes, 40'000, "0.1.0"))
    EXPECT_LT(finding.text.size(), 400u) << finding.text;
}

TEST(Findings, WhatPlacementSaysIsSaidOnceForAllNodes) {
  std::vector<NodeFacts> nodes(3);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i].node = "n" + std::to_string(i + 1);
  nodes[0].warnings = "mlx5_7 port 1 is DOWN\nnothing is placed";
  nodes[2].warnings = "mlx5_7 port 1 is DOWN";
  auto found = findings(nodes, 3, "");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "n1, n3: mlx5_7 port 1 is DOWN");
  EXPECT_EQ(found[1].text, "n1: nothing is placed");
  EXPECT_FALSE(found[0].fatal);
  nodes[1].warnings = "a\nb\nc\nd\ne\nf\ng";
  EXPECT_EQ(findings(nodes, 3, "").size(), 7u);
}

} // namespace
} // namespace dist_train
