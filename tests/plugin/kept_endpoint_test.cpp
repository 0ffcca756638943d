// SPDX-License-Identifier: BSD-3-Clause
// What is said of a MASTER_ADDR and MASTER_PORT of the user's that env=keep leaves alone.
#include "libstep/os/port.h"
#include "spank/kept_endpoint.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

class KeptEndpoint : public testing::Test {
protected:
  KeptEndpoint() {
    plan_.world_size = 2;
    plan_.local_world_size = 2;
    plan_.master_address = "127.0.0.1";
    plan_.master_node = "gpu01";
    held_ = *hold_port(0, false);
    plan_.ports.master = port_of(held_);
  }
  Result<std::vector<std::string>> check(const Environment& inherited,
                                         const char* words = "env=keep") {
    auto changes = task_environment(plan_, *parse_options(words), inherited);
    return check_kept_endpoint(plan_, changes, inherited, std::chrono::seconds(1));
  }
  std::string error(const Environment& inherited) {
    auto checked = check(inherited);
    return checked ? "" : checked.error().message;
  }
  TaskPlan plan_;
  Fd held_;
};

TEST_F(KeptEndpoint, IsNotLookedAtWhereItIsOurs) {
  EXPECT_TRUE(check({})->empty());
  EXPECT_TRUE(check({{"MASTER_ADDR", "no.such.host.invalid"}}, "")->empty());
  plan_.node_count = 2; // a loopback name of several nodes is not kept
  EXPECT_TRUE(check({{"MASTER_ADDR", "localhost"}})->empty());
}

TEST_F(KeptEndpoint, OnRankZerosNodeIsSilent) {
  for (const char* host : {"localhost", "127.0.0.1"})
    EXPECT_TRUE(check({{"MASTER_ADDR", host}})->empty()) << host;
}

TEST_F(KeptEndpoint, ThatNoProgramCouldUseIsAnErrorOfEveryNodesFirstTask) {
  for (std::uint32_t rank : {0, 1}) {
    plan_.rank = rank;
    EXPECT_EQ(error({{"MASTER_ADDR", "no.such.host.invalid"}, {"MASTER_PORT", "29500"}})
                  .find("your MASTER_ADDR='no.such.host.invalid' MASTER_PORT='29500' (env=keep): "
                        "cannot connect to no.such.host.invalid:29500: "),
              0u);
    EXPECT_EQ(error({{"MASTER_ADDR", "224.0.0.1"}}) // a group: TCP has no way there
                  .find("your MASTER_ADDR='224.0.0.1' (env=keep): cannot connect to 224.0.0.1:"),
              0u);
    EXPECT_NE(error({{"MASTER_ADDR", "a\n\x1b[2J\xff"}}).find("to a\\x0a\\x1b[2J\\xff:"),
              std::string::npos);
    EXPECT_LT(error({{"MASTER_ADDR", std::string(100'000, 'a')}}).size(), 600u);
    for (const char* port : {"0", "70000", "x", "-1"})
      EXPECT_EQ(error({{"MASTER_PORT", port}}),
                "your MASTER_PORT='" + std::string(port) + "' (env=keep): no such port");
  }
  plan_.local_rank = 1;
  EXPECT_EQ(error({{"MASTER_ADDR", "no.such.host.invalid"}}), "");
}

TEST_F(KeptEndpoint, InModeTorchrunIsTheOneThatTorchrunReads) {
  Environment inherited{{"PET_MASTER_ADDR", "no.such.host.invalid"}, {"MASTER_PORT", "29500"}};
  auto checked = check(inherited, "torchrun,env=keep");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message.find(
                "your PET_MASTER_ADDR='no.such.host.invalid' (env=keep): cannot connect to "
                "no.such.host.invalid:29500: "),
            0u)
      << checked.error().message;
  EXPECT_TRUE(check({{"PET_MASTER_ADDR", "no.such.host.invalid"}})); // removed there
  EXPECT_FALSE(check({{"PET_MASTER_PORT", "x"}}, "torchrun,env=keep"));
  EXPECT_TRUE(check({{"PET_MASTER_PORT", "x"}}, "torchrun"));
  plan_.node_count = 2;
  plan_.rank = plan_.node_rank = 1;
  EXPECT_FALSE(check({{"PET_MASTER_ADDR", "localhost"}}, "torchrun,env=keep"));
}

TEST_F(KeptEndpoint, OnEachNodesLoopbackIsAnErrorOfTheOtherNodes) {
  plan_.node_count = 2;
  for (const char* host : {"LOCALHOST", "0", "0.0.0.0", "2130706433"}) {
    plan_.rank = plan_.node_rank = 0;
    EXPECT_EQ(error({{"MASTER_ADDR", host}}), "") << host;
    plan_.rank = plan_.node_rank = 1;
    EXPECT_EQ(error({{"MASTER_ADDR", host}}),
              "your MASTER_ADDR='" + std::string(host) +
                  "' (env=keep): that is each node's own loopback: here nobody finds rank 0, on "
                  "gpu01 127.0.0.1");
  }
}

TEST_F(KeptEndpoint, WhereAnotherProgramListensIsWarnedOfByRankZero) {
  auto other = *listen_on(0, false);
  Environment inherited{{"MASTER_PORT", std::to_string(port_of(other))}};
  auto said = *check(inherited);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("another program listens there already"), std::string::npos) << said[0];
  plan_.rank = 1;
  EXPECT_TRUE(check(inherited)->empty());
}

} // namespace
} // namespace dist_train
