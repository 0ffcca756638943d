// SPDX-License-Identifier: BSD-3-Clause
// Who am I, by the variables of launchers other than srun, and of none.
#include "tests/abi/identity_support.h"

namespace dist_train {
namespace {

// Rank 2 of 3 of Open MPI's mpirun, 2 ranks on the first host.
Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "3"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
          {"OMPI_COMM_WORLD_NODE_RANK", "0"},
          {"PMIX_NAMESPACE", "2079981569"},
          {"PMIX_RANK", "2"},
          {"MASTER_ADDR", "node01"}};
}

// Rank 1 of 2 on one host, as mpirun of MPICH and of Intel MPI sets it.
Environment hydra() {
  return {{"PMI_RANK", "1"},        {"PMI_SIZE", "2"},        {"PMI_FD", "9"},
          {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"MASTER_PORT", "29500"}};
}

// Pod 1 of 3 of a PyTorchJob with one process in each.
Environment pytorch_job() {
  return {{"RANK", "1"},
          {"WORLD_SIZE", "3"},
          {"MASTER_ADDR", "job-master-0"},
          {"MASTER_PORT", "23456"},
          {"PET_NNODES", "3"},
          {"PET_NODE_RANK", "1"},
          {"PET_NPROC_PER_NODE", "auto"},
          {"PET_MASTER_ADDR", "job-master-0"},
          {"PET_MASTER_PORT", "23456"}};
}

// Pod 1 of 3 of a TrainJob.
Environment train_job() {
  return {{"PET_NNODES", "3"},
          {"PET_NPROC_PER_NODE", "1"},
          {"PET_NODE_RANK", "1"},
          {"PET_MASTER_ADDR", "job-node-0-0.job"},
          {"PET_MASTER_PORT", "29500"}};
}

Environment jax() {
  return {{"JAX_NUM_PROCESSES", "3"},
          {"JAX_PROCESS_ID", "1"},
          {"JAX_COORDINATOR_ADDRESS", "job-node-0-0.job:29500"}};
}

Environment bare() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "3"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "node01"},
          {"MASTER_PORT", "29500"}};
}

TEST(Launchers, Torchrun) {
  const Identity me = found(torchrun());
  EXPECT_EQ(me.source, STEP_SOURCE_TORCHRUN);
  EXPECT_EQ(me.source_text, "torchrun (run 'abc')");
  EXPECT_EQ(me.rank, 3u);
  EXPECT_EQ(me.local_rank, 1u);
  EXPECT_EQ(me.local_world, 2u);
  EXPECT_EQ(me.node_rank, 1u);
  EXPECT_EQ(me.node_count, 2u);
  EXPECT_EQ(me.nodes, (std::vector<std::string>{"", "", "host", "host"}));
  EXPECT_EQ(me.restart_count, 2u);
  EXPECT_EQ(me.master_port, 0); // the agent listens on MASTER_PORT
  EXPECT_EQ(me.store_hosts, std::vector<std::string>{"node01"});
}

TEST(Launchers, TorchrunInsideOfStepsAndPods) {
  EXPECT_EQ(found(with(slurm(), torchrun())).source, STEP_SOURCE_TORCHRUN);
  EXPECT_EQ(found(with(plugin(), torchrun())).rank, 3u);
  EXPECT_EQ(found(with(open_mpi(), torchrun())).rank, 3u);
  // RANK was the pod's number, and is the worker's.
  const Identity worker =
      found(with(with(pytorch_job(), {{"PET_NPROC_PER_NODE", "2"}}), torchrun()));
  EXPECT_EQ(worker.source_text, "torchrun (run 'abc')");
  EXPECT_EQ(worker.rank, 3u);
}

TEST(Launchers, OpenMpi) {
  const Identity me = found(open_mpi());
  EXPECT_EQ(me.source, STEP_SOURCE_MPIRUN);
  EXPECT_EQ(me.source_text, "mpirun (Open MPI)");
  EXPECT_EQ(me.rank, 2u);
  EXPECT_EQ(me.world, 3u);
  EXPECT_EQ(me.local_rank, 0u);
  EXPECT_EQ(me.local_world, 1u);
  EXPECT_FALSE(me.layout_told); // 2+1 or 1+2
  EXPECT_EQ(me.nodes, (std::vector<std::string>{"", "", "host"}));
  EXPECT_EQ(me.store_hosts, std::vector<std::string>{"node01"});
  EXPECT_EQ(me.master_port, 0); // rank 0 will choose
  EXPECT_NE(found(with(open_mpi(), {{"PMIX_NAMESPACE", "2079981570"}})).token, me.token);
}

TEST(Launchers, MpirunOnOneHostNeedsNoAddress) {
  const Identity me = found(with(open_mpi(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                                              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                              {"MASTER_ADDR", ""}}));
  EXPECT_TRUE(me.layout_told);
  EXPECT_EQ(me.master_address, "127.0.0.1");
  EXPECT_EQ(me.node_count, 1u);
  EXPECT_EQ(me.nodes, (std::vector<std::string>{"host", "host", "host"}));
  const Identity other = found(hydra());
  EXPECT_EQ(other.source_text, "mpirun (MPICH or Intel MPI)");
  EXPECT_EQ(other.rank, 1u);
  EXPECT_EQ(other.local_rank, 1u);
  EXPECT_EQ(other.master_port, 29500);
}

TEST(Launchers, MpirunsDaemonsMayBeTasksOfSlurm) {
  const Environment daemon{{"SLURM_JOB_ID", "4711"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "1"},
                           {"SLURM_STEP_NUM_NODES", "1"}};
  EXPECT_EQ(found(with(open_mpi(), daemon)).rank, 2u);
  // srun --mpi=pmi2 and --mpi=pmix are no mpirun.
  EXPECT_EQ(found(with(slurm(), {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}})).source, STEP_SOURCE_SLURM);
  EXPECT_EQ(
      found(with(slurm(), {{"PMIX_RANK", "5"}, {"PMIX_NAMESPACE", "slurm.pmix.4711.3"}})).source,
      STEP_SOURCE_SLURM);
}

TEST(Launchers, PodsWithOneProcess) {
  for (const auto& [environment, text, port] :
       {std::tuple{pytorch_job(), "the variables RANK and WORLD_SIZE of a pod", 23456},
        std::tuple{train_job(), "the variables PET_NODE_RANK and PET_NNODES of a pod", 29500},
        std::tuple{jax(), "the variables JAX_PROCESS_ID and JAX_NUM_PROCESSES", 29500},
        std::tuple{Environment{{"PROCESS_ID", "1"},
                               {"NUM_PROCESSES", "3"},
                               {"COORDINATOR_ADDRESS", "job-worker-0"},
                               {"COORDINATOR_PORT", "6666"}},
                   "the variables PROCESS_ID and NUM_PROCESSES", 6666}}) {
    const Identity me = found(environment);
    EXPECT_EQ(me.source, STEP_SOURCE_VARIABLES);
    EXPECT_EQ(me.source_text, text);
    EXPECT_EQ(me.rank, 1u) << text;
    EXPECT_EQ(me.world, 3u) << text;
    EXPECT_EQ(me.local_rank, 0u) << text;
    EXPECT_EQ(me.local_world, 1u) << text;
    EXPECT_EQ(me.node_rank, 1u) << text;
    EXPECT_EQ(me.node_count, 3u) << text;
    EXPECT_EQ(me.master_port, port) << text;
    EXPECT_TRUE(me.master_address.starts_with("job-")) << me.master_address;
    EXPECT_EQ(me.store_hosts, std::vector<std::string>{me.master_address});
    EXPECT_EQ(me.nodes, (std::vector<std::string>{"", "host", ""}));
  }
}

TEST(Launchers, OnePodIsAWorldOfOne) {
  for (const char* processes : {"", "1", "auto", "gpu"}) {
    const Identity me =
        found({{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", processes}, {"PET_NODE_RANK", "0"}});
    EXPECT_EQ(me.world, 1u);
    EXPECT_EQ(me.master_address, "127.0.0.1");
  }
  EXPECT_EQ(found({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).source, STEP_SOURCE_SINGLE);
  // Left over from a torchrun on one host, or meant for the next one.
  EXPECT_EQ(
      found({{"PET_NPROC_PER_NODE", "4"}, {"MASTER_ADDR", "node01"}, {"MASTER_PORT", "29500"}})
          .source,
      STEP_SOURCE_SINGLE);
}

TEST(Launchers, BareVariables) {
  const Identity me = found(bare());
  EXPECT_EQ(me.source, STEP_SOURCE_VARIABLES);
  EXPECT_EQ(me.source_text, "the variables RANK and WORLD_SIZE");
  EXPECT_EQ(me.local_rank, 1u);
  EXPECT_FALSE(me.layout_told);
  EXPECT_EQ(me.master_port, 29500);
  const Identity told = found(with(bare(), {{"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_TRUE(told.layout_told);
  EXPECT_EQ(told.node_count, 2u);
  EXPECT_EQ(told.token, me.token);
  const Identity alone = found(with(bare(), {{"LOCAL_RANK", ""}})); // one on each host
  EXPECT_TRUE(alone.layout_told);
  EXPECT_EQ(alone.node_count, 3u);
  EXPECT_EQ(found({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}).world, 1u);
}

TEST(Launchers, ALayoutPutsEveryRankInItsPlace) {
  Identity me = found(bare());
  place_in(me, *parse_layout("node01=0;node02=1-2"));
  EXPECT_EQ(me.local_rank, 1u);
  EXPECT_EQ(me.local_world, 2u);
  EXPECT_EQ(me.node_rank, 1u);
  EXPECT_EQ(me.node_count, 2u);
  EXPECT_EQ(me.nodes, (std::vector<std::string>{"node01", "node02", "node02"}));
}

TEST(Launchers, ContradictionsAreNamed) {
  const std::string huge(200000, '9');
  const Contradiction kCases[] = {
      {torchrun(), {{"LOCAL_RANK", "2"}}, {"LOCAL_RANK='2'"}},
      {torchrun(), {{"RANK", "0"}}, {"LOCAL_RANK=1", "RANK=0"}},
      {torchrun(), {{"WORLD_SIZE", ""}}, {"WORLD_SIZE is not set"}},
      {torchrun(), {{"MASTER_ADDR", ""}}, {"MASTER_ADDR is not set"}},
      {torchrun(), {{"MASTER_ADDR", huge}}, {"MASTER_ADDR='9999"}},
      {torchrun(), {{"MASTER_PORT", "65536"}}, {"MASTER_PORT='65536'"}},
      {torchrun(), {{"GROUP_RANK", "2"}}, {"GROUP_RANK='2'"}},
      {torchrun(), {{"TORCHELASTIC_RESTART_COUNT", "\xc3("}}, {"TORCHELASTIC_RESTART_COUNT"}},
      {{}, {{"RANK", "1"}}, {"WORLD_SIZE is not set"}},
      {{}, {{"WORLD_SIZE", "0"}, {"RANK", "0"}}, {"WORLD_SIZE='0'"}},
      {bare(), {{"WORLD_SIZE", ""}}, {"WORLD_SIZE is not set"}},
      {bare(), {{"RANK", ""}}, {"RANK is not set"}},
      {bare(), {{"RANK", ""}, {"WORLD_SIZE", ""}}, {"WORLD_SIZE is not set"}},
      {bare(), {{"MASTER_ADDR", ""}}, {"MASTER_ADDR is not set"}},
      {bare(), {{"MASTER_PORT", ""}}, {"MASTER_PORT is not set"}},
      {bare(), {{"MASTER_PORT", "http"}}, {"MASTER_PORT='http'"}},
      {bare(), {{"RANK", "3"}}, {"RANK='3'", "0 to 2"}},
      {bare(), {{"LOCAL_RANK", "3"}}, {"LOCAL_RANK='3'", "0 to 2"}},
      {bare(), {{"LOCAL_RANK", "-1"}}, {"LOCAL_RANK='-1'"}},
      {bare(), {{"LOCAL_RANK", ""}, {"LOCAL_WORLD_SIZE", "2"}}, {"LOCAL_RANK is not set"}},
      {open_mpi(), {{"OMPI_COMM_WORLD_SIZE", ""}}, {"OMPI_COMM_WORLD_SIZE is not set"}},
      {open_mpi(), {{"OMPI_COMM_WORLD_RANK", ""}}, {"OMPI_COMM_WORLD_RANK is not set"}},
      {open_mpi(), {{"OMPI_COMM_WORLD_RANK", "3"}}, {"OMPI_COMM_WORLD_RANK='3'", "0 to 2"}},
      {open_mpi(), {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}, {"OMPI_COMM_WORLD_LOCAL_RANK='1'"}},
      {open_mpi(), {{"MASTER_ADDR", ""}}, {"MASTER_ADDR is not set", "of the 3 ranks", "only 1"}},
      {open_mpi(), {{"MASTER_ADDR", huge}}, {"MASTER_ADDR='9999", "longer than a host name"}},
      {open_mpi(), {{"PMIX_NAMESPACE", ""}}, {"MASTER_PORT is not set"}},
      {open_mpi(), {{"RANK", "0"}}, {"RANK=0 contradicts OMPI_COMM_WORLD_RANK"}},
      {open_mpi(), {{"WORLD_SIZE", "1"}}, {"WORLD_SIZE=1 contradicts OMPI_COMM_WORLD_SIZE"}},
      {hydra(), {{"MASTER_PORT", ""}}, {"MASTER_PORT is not set"}},
      // Launchers that are not known.
      {{}, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, {"PMI_SIZE=4", "would be alone"}},
      {hydra(), {{"PMI_RANK", ""}}, {"PMI_SIZE=2", "would be alone"}},
      {{}, {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}}, {"HOROVOD_SIZE=2"}},
      // One launcher inside of another.
      {with(slurm(), torchrun()),
       {{"RANK", "0"},
        {"WORLD_SIZE", "1"},
        {"LOCAL_RANK", "0"},
        {"LOCAL_WORLD_SIZE", "1"},
        {"GROUP_RANK", "0"},
        {"GROUP_WORLD_SIZE", "1"}},
       {"SLURM_STEP_NUM_TASKS=6", "WORLD_SIZE=1"}},
      {with(open_mpi(), slurm()),
       {{"SLURM_STEP_NUM_NODES", "2"}},
       {"SLURM_STEP_NUM_TASKS=6", "OMPI_COMM_WORLD_SIZE=3"}},
      {with(slurm(), open_mpi()),
       {{"OMPI_COMM_WORLD_SIZE", "1"},
        {"OMPI_COMM_WORLD_RANK", "0"},
        {"SLURM_STEP_NUM_NODES", "6"}},
       {"SLURM_STEP_NUM_TASKS=6", "OMPI_COMM_WORLD_SIZE=1"}},
      {with(plugin(), open_mpi()),
       {},
       {"OMPI_COMM_WORLD_RANK=2", "srun --dist-train", "makes it 4"}},
      // Pods that want torchrun.
      {pytorch_job(),
       {{"PET_NPROC_PER_NODE", "4"}, {"WORLD_SIZE", "12"}},
       {"RANK='1' is the number of a pod", "PET_NPROC_PER_NODE='4'"}},
      {pytorch_job(), {{"WORLD_SIZE", "12"}}, {"PET_NNODES=3 contradicts WORLD_SIZE"}},
      {pytorch_job(), {{"PET_NODE_RANK", "2"}}, {"PET_NODE_RANK=2 contradicts RANK"}},
      {pytorch_job(), {{"PET_NNODES", "1:3"}}, {"PET_NNODES='1:3'", "only torchrun can follow"}},
      {pytorch_job(), {{"WORLD_SIZE", ""}}, {"WORLD_SIZE is not set"}},
      {train_job(), {{"PET_NPROC_PER_NODE", "4"}}, {"PET_NPROC_PER_NODE='4'", "PET_NODE_RANK='1'"}},
      {train_job(), {{"PET_NPROC_PER_NODE", "auto"}}, {"PET_NPROC_PER_NODE='auto'"}},
      {train_job(), {{"PET_NPROC_PER_NODE", "0"}}, {"PET_NPROC_PER_NODE='0'"}},
      {train_job(), {{"PET_NNODES", "2:4"}}, {"PET_NNODES='2:4'"}},
      {train_job(), {{"PET_NNODES", ""}}, {"PET_NNODES is not set"}},
      {train_job(), {{"PET_NODE_RANK", ""}}, {"PET_NODE_RANK is not set"}},
      {train_job(), {{"PET_NODE_RANK", "3"}}, {"PET_NODE_RANK='3'"}},
      {train_job(), {{"PET_MASTER_ADDR", ""}}, {"PET_MASTER_ADDR is not set"}},
      {jax(), {{"JAX_PROCESS_ID", "3"}}, {"JAX_PROCESS_ID='3'"}},
      {jax(), {{"JAX_NUM_PROCESSES", ""}}, {"JAX_NUM_PROCESSES is not set"}},
      {jax(), {{"JAX_COORDINATOR_ADDRESS", ""}}, {"JAX_COORDINATOR_ADDRESS is not set"}},
      {jax(), {{"JAX_COORDINATOR_ADDRESS", "job"}}, {"JAX_COORDINATOR_ADDRESS", "'job'"}},
  };
  for (const auto& one : kCases)
    expect_named(one);
}

} // namespace
} // namespace dist_train
