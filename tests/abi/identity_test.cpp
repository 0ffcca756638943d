// SPDX-License-Identifier: BSD-3-Clause
// Who am I, by environment: what the plugin and Slurm set, and what does not fit together.
#include "tests/abi/identity_support.h"

namespace dist_train {
namespace {

TEST(Identity, Plugin) {
  const Identity me = found(plugin());
  EXPECT_EQ(me.source, STEP_SOURCE_PLUGIN);
  EXPECT_EQ(me.source_text, "srun --dist-train (step 4711.3)");
  EXPECT_EQ(me.rank, 4u);
  EXPECT_EQ(me.world, 6u);
  EXPECT_EQ(me.local_rank, 0u);
  EXPECT_EQ(me.local_world, 1u);
  EXPECT_EQ(me.node_rank, 1u);
  EXPECT_EQ(me.node_count, 3u);
  EXPECT_EQ(me.node_name, "node02");
  EXPECT_EQ(me.nodes,
            (std::vector<std::string>{"node01", "node01", "node01", "node01", "node02", "node03"}));
  EXPECT_EQ(me.strategy, "fsdp");
  EXPECT_EQ(me.step_id, "4711.3");
  EXPECT_EQ(me.restart_count, 1u);
  EXPECT_EQ(me.store->host, "10.0.0.1");
  EXPECT_EQ(me.store->port, 23001);
  EXPECT_EQ(me.master_port, 23000);
  EXPECT_FALSE(me.store_fd); // rank 0's only
}

TEST(Identity, ATaskThatStartsRanksIsWhatSlurmSaysAndWhatItStartsIsWhatItsLauncherSays) {
  auto task = slurm();
  for (const auto& [name, value] : plugin())
    if (name.starts_with("DIST_TRAIN_"))
      task[name] = value;
  task = with(task, {{"DIST_TRAIN_MODE", "ray"},
                     {"DIST_TRAIN_STRATEGY", "zero2"},
                     {"DIST_TRAIN_LAYOUT", "node01=0;node02=1"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_PROCID", "1"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_GTIDS", "1"}});
  for (const char* layout : {"node01=0;node02=1", ""}) {
    task["DIST_TRAIN_LAYOUT"] = layout;
    const Identity me = found(task);
    EXPECT_EQ(me.source, STEP_SOURCE_PLUGIN);
    EXPECT_EQ(me.rank, 1u);
    EXPECT_EQ(me.world, 2u);
    EXPECT_EQ(me.node_rank, 1u);
    EXPECT_EQ(me.node_count, 2u);
    EXPECT_EQ(me.local_world, 1u);
    EXPECT_EQ(me.master_address, "10.0.0.1");
    EXPECT_EQ(me.master_port, 0); // Ray's head has it
    EXPECT_EQ(me.strategy, "zero2");
  }
  task = with(
      task,
      {{"DIST_TRAIN_MODE", "torchrun"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "23000"}});
  EXPECT_EQ(found(task).master_port, 23000);
  EXPECT_EQ(found(task).rank, 1u);

  // A worker of torchrun's, or an actor of Ray's.
  for (const char* mode : {"torchrun", "ray"}) {
    auto worker = with(task, torchrun());
    worker["DIST_TRAIN_MODE"] = mode;
    if (mode == std::string("ray"))
      worker.erase("TORCHELASTIC_RUN_ID");
    const Identity me = found(worker);
    EXPECT_EQ(me.source, worker.contains("TORCHELASTIC_RUN_ID") ? STEP_SOURCE_TORCHRUN
                                                                : STEP_SOURCE_VARIABLES);
    EXPECT_EQ(me.rank, 3u);
    EXPECT_EQ(me.world, 4u);
    EXPECT_EQ(me.strategy, "zero2");
  }
}

TEST(Identity, PluginWithoutLayoutOrWithIpv6) {
  Environment environment = with(plugin(), {{"DIST_TRAIN_STORE", "[fd00::1]:23001"},
                                            {"DIST_TRAIN_LAYOUT", ""}, // too long to be passed on
                                            {"DIST_TRAIN_STRATEGY", ""}});
  const Identity me = found(environment);
  EXPECT_EQ(me.store->host, "fd00::1");
  EXPECT_EQ(me.node_rank, 1u);
  EXPECT_EQ(me.node_count, 3u);
  EXPECT_EQ(me.nodes[4], "host");
  EXPECT_EQ(me.nodes[0], "");
  EXPECT_EQ(me.strategy, "");
}

TEST(Identity, PluginsRankZeroGetsDescriptors) {
  const Identity me = found(with(plugin(), {{"RANK", "0"},
                                            {"LOCAL_WORLD_SIZE", "4"},
                                            {"NODE_RANK", "0"},
                                            {"DIST_TRAIN_STORE_FD", "100"},
                                            {"DIST_TRAIN_PORT_FD", "101"}}));
  EXPECT_EQ(me.store_fd, 100u);
  EXPECT_EQ(me.port_fd, 101u);
}

TEST(Identity, Slurm) {
  const Identity me = found(slurm());
  EXPECT_EQ(me.source, STEP_SOURCE_SLURM);
  EXPECT_EQ(me.rank, 5u);
  EXPECT_EQ(me.world, 6u);
  EXPECT_EQ(me.local_rank, 1u);
  EXPECT_EQ(me.local_world, 2u);
  EXPECT_EQ(me.node_rank, 1u);
  EXPECT_EQ(me.node_count, 2u);
  EXPECT_EQ(me.node_name, "node02");
  EXPECT_EQ(me.nodes,
            (std::vector<std::string>{"node01", "node01", "node01", "node01", "node02", "node02"}));
  EXPECT_EQ(me.step_id, "4711.3");
  EXPECT_EQ(me.master_address, "node01");
  EXPECT_EQ(me.master_port, 0); // rank 0 will choose
  EXPECT_EQ(me.store_hosts, std::vector<std::string>{"node01"});
  EXPECT_EQ(me.token.size(), 32u);
}

TEST(Identity, SlurmKnowsOtherNodesOnlyWithBlockDistribution) {
  const Identity cyclic = found(with(
      slurm(), {{"SLURM_DISTRIBUTION", "cyclic"}, {"SLURM_PROCID", "3"}, {"SLURM_GTIDS", "1,3"}}));
  EXPECT_EQ(cyclic.nodes, (std::vector<std::string>{"", "node02", "", "node02", "", ""}));
  const Identity arbitrary = found(with(slurm(), {{"SLURM_DISTRIBUTION", "arbitrary"}}));
  EXPECT_EQ(arbitrary.store_hosts, (std::vector<std::string>{"node01", "node02"}));
}

TEST(Identity, SlurmStepsMeetInDifferentPlaces) {
  const Identity me = found(slurm());
  for (const Environment& other :
       {Environment{{"SLURM_STEP_ID", "4"}}, Environment{{"SLURM_JOB_ID", "4712"}},
        Environment{{"SLURM_RESTART_COUNT", "1"}}})
    EXPECT_NE(found(with(slurm(), other)).token, me.token);
  EXPECT_EQ(found(with(slurm(), {{"SLURM_PROCID", "4"}, {"SLURM_LOCALID", "0"}})).token, me.token);
}

TEST(Identity, BatchScriptsAndShellsAreNoSteps) {
  Environment batch = with(slurm(), {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(found(batch).source, STEP_SOURCE_SINGLE);
  for (const char* step :
       {"4294967291", "4294967290", "-6"}) { // batch, interactive, and that in Slurm 26.05
    batch["SLURM_STEP_ID"] = step;
    EXPECT_EQ(found(batch).source, STEP_SOURCE_SINGLE) << step;
    EXPECT_EQ(found(batch).world, 1u) << step;
  }
}

TEST(Identity, Single) {
  const Identity me = found({{"RANK", ""}, {"HOME", "/"}}); // an empty value counts as missing
  EXPECT_EQ(me.source, STEP_SOURCE_SINGLE);
  EXPECT_EQ(me.world, 1u);
  EXPECT_EQ(me.nodes, std::vector<std::string>{"host"});
}

TEST(Identity, ContradictionsAreNamed) {
  const std::string huge(200000, '9');
  const Contradiction kCases[] = {
      {plugin(), {{"RANK", "6"}}, {"RANK='6'", "0 to 5"}},
      {plugin(), {{"RANK", "-1"}}, {"RANK='-1'"}},
      {plugin(), {{"RANK", ""}}, {"RANK is not set"}},
      {plugin(), {{"WORLD_SIZE", "7"}}, {"DIST_TRAIN_LAYOUT", "6 ranks", "WORLD_SIZE=7"}},
      {plugin(), {{"WORLD_SIZE", huge}}, {"WORLD_SIZE='9999"}},
      {plugin(), {{"LOCAL_RANK", "1"}}, {"LOCAL_RANK=1", "makes it 0"}},
      {plugin(), {{"LOCAL_WORLD_SIZE", "4"}}, {"LOCAL_WORLD_SIZE=4"}},
      {plugin(), {{"NODE_RANK", "x"}}, {"NODE_RANK='x'"}},
      {plugin(), {{"DIST_TRAIN_VERSION", "2"}}, {"DIST_TRAIN_VERSION='2'"}},
      {plugin(), {{"DIST_TRAIN_LAYOUT", "node01=0-9,"}}, {"DIST_TRAIN_LAYOUT"}},
      {plugin(), {{"DIST_TRAIN_LAYOUT", "\xff\xfe=0-5"}}, {"DIST_TRAIN_LAYOUT"}},
      {plugin(), {{"DIST_TRAIN_STORE", "10.0.0.1"}}, {"DIST_TRAIN_STORE", "'10.0.0.1'"}},
      {plugin(), {{"DIST_TRAIN_STORE", "fd00::1:23001"}}, {"DIST_TRAIN_STORE"}},
      {plugin(), {{"DIST_TRAIN_STORE", "h:0"}}, {"DIST_TRAIN_STORE"}},
      {plugin(), {{"DIST_TRAIN_STORE", "h:65536"}}, {"DIST_TRAIN_STORE"}},
      {plugin(), {{"DIST_TRAIN_STORE", ":80"}}, {"DIST_TRAIN_STORE"}},
      {plugin(), {{"DIST_TRAIN_STORE", huge + ":80"}}, {"DIST_TRAIN_STORE"}},
      {plugin(), {{"DIST_TRAIN_STRATEGY", "fspd"}}, {"DIST_TRAIN_STRATEGY='fspd'"}},
      {plugin(), {{"MASTER_PORT", "0"}}, {"MASTER_PORT='0'"}},
      {with(plugin(), slurm()),
       {},
       {"RANK='4' was set by someone after the plugin", "gave rank 5 of 6", "SLURM_PROCID"}},
      {with(plugin(), slurm()), {{"RANK", "7"}}, {"RANK='7' was set by someone", "rank 5 of 6"}},
      {with(plugin(), slurm()), {{"SLURM_PROCID", "\xff"}}, {"SLURM_PROCID="}},
      {with(plugin(), slurm()), {{"SLURM_STEP_ID", "9"}}, {"DIST_TRAIN_STEP='4711.3'", "4711.9"}},
      {with(plugin(), slurm()),
       {{"SLURM_STEP_ID", "\x1b[2J"}},
       {"is not this step, '4711.\\x1b[2J'"}},
      {plugin(), {{"DIST_TRAIN_STEP", "\x1b[2J"}}, {"DIST_TRAIN_STEP='\\x1b[2J'"}},
      {plugin(), {{"DIST_TRAIN_STEP", "4711"}}, {"DIST_TRAIN_STEP='4711'"}},
      {slurm(), {{"SLURM_PROCID", "6"}}, {"SLURM_PROCID='6'"}},
      {slurm(), {{"SLURM_LOCALID", "2"}}, {"SLURM_LOCALID=2"}},
      {slurm(), {{"SLURM_STEP_TASKS_PER_NODE", "4,1"}}, {"SLURM_STEP_TASKS_PER_NODE", "5 tasks"}},
      {slurm(), {{"SLURM_HET_SIZE", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "4,5"}}, {"9 tasks"}},
      {slurm(), {{"SLURM_STEP_TASKS_PER_NODE", "4(x"}}, {"SLURM_STEP_TASKS_PER_NODE='4(x'"}},
      {slurm(), {{"SLURM_STEP_NODELIST", "n[1-"}}, {"SLURM_STEP_NODELIST='n[1-'"}},
      {slurm(), {{"SLURM_STEP_NODELIST", ""}}, {"SLURM_STEP_NODELIST is not set"}},
      {slurm(), {{"SLURM_NODEID", "2"}}, {"SLURM_NODEID=2"}},
      {slurm(), {{"SLURM_GTIDS", "0,1"}}, {"SLURM_GTIDS='0,1'", "SLURM_PROCID=5"}},
      {slurm(), {{"SLURM_STEP_ID", "x"}}, {"SLURM_STEP_ID='x'"}},
      {slurm(), {{"RANK", "1"}, {"WORLD_SIZE", "6"}}, {"RANK=1", "SLURM_PROCID", "makes it 5"}},
  };
  for (const auto& one : kCases)
    expect_named(one);
}

TEST(Identity, SecretsStayOutOfMessages) {
  const auto identity = find_identity(with(plugin(), {{"DIST_TRAIN_TOKEN", "S3CRET"}}), "host");
  ASSERT_FALSE(identity);
  EXPECT_NE(identity.error().message.find("DIST_TRAIN_TOKEN"), std::string::npos);
  EXPECT_EQ(identity.error().message.find("S3CRET"), std::string::npos);
}

} // namespace
} // namespace dist_train
