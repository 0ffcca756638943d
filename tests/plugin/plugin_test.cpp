// SPDX-License-Identifier: BSD-3-Clause
// The real plugin under a stand-in for Slurm.
#include "tests/plugin/plugin_fixture.h"

#include <csignal>
#include <fstream>
#include <set>
#include <sys/prctl.h>

namespace {

TEST_F(Plugin, ExportsWhatSlurmLooksForAndNothingElse) {
  std::set<std::string> names;
  FILE* pipe = popen("nm -D --defined-only --format=posix " PLUGIN_PATH, "r");
  ASSERT_NE(pipe, nullptr);
  char name[256], rest[256];
  while (std::fscanf(pipe, "%255s %255[^\n]", name, rest) == 2)
    names.insert(name);
  pclose(pipe);
  EXPECT_EQ(names, (std::set<std::string>{"plugin_name", "plugin_type", "plugin_version",
                                          "spank_plugin_version", "slurm_spank_init",
                                          "slurm_spank_init_post_opt",
                                          "slurm_spank_local_user_init", "slurm_spank_task_init",
                                          "slurm_spank_task_init_privileged", "slurm_spank_exit"}));
  EXPECT_STREQ(static_cast<const char*>(dlsym(handle_, "plugin_type")), "spank");
  EXPECT_STREQ(static_cast<const char*>(dlsym(handle_, "plugin_name")), "dist_train");
  EXPECT_EQ(*static_cast<const unsigned*>(dlsym(handle_, "plugin_version")),
            static_cast<unsigned>(SLURM_VERSION_NUMBER));
}

TEST_F(Plugin, DoesNothingInDaemonsAndProloguScripts) {
  for (auto context : {S_CTX_SLURMD, S_CTX_JOB_SCRIPT, S_CTX_ERROR}) {
    fake_slurm.context = context;
    EXPECT_EQ(call("slurm_spank_init"), 0);
    EXPECT_EQ(call("slurm_spank_init_post_opt"), 0);
    EXPECT_EQ(call("slurm_spank_exit"), 0);
  }
  EXPECT_EQ(fake_slurm.calls, 0);
}

TEST_F(Plugin, ASrunThatDoesNotAskIsLeftAlone) {
  setenv("SLURM_DIST_TRAIN_TOKEN", "stale", 1);
  EXPECT_EQ(call("slurm_spank_init"), 0);
  EXPECT_EQ(call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(call("slurm_spank_local_user_init"), 0);
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_OPTIONS"), "(unset)");
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_TOKEN"), "(unset)");
  EXPECT_EQ(variable("SLURM_KILL_BAD_EXIT"), "(unset)");
}

TEST_F(Plugin, StepsThatDoNotAskAndStepsThatAreNotSrunsKeepTheirEnvironment) {
  one_task_step();
  auto before = fake_slurm.environment;
  EXPECT_EQ(call("slurm_spank_task_init"), 0);
  EXPECT_EQ(fake_slurm.environment, before);
  fake_slurm.environment["SLURM_DIST_TRAIN_OPTIONS"] = "torch";
  before = fake_slurm.environment;
  for (std::uint32_t step : {0xfffffffbu, 0xfffffffcu, 0xfffffffau, 0xfffffffdu}) {
    fake_slurm.step = step;
    EXPECT_EQ(call("slurm_spank_task_init"), 0);
    EXPECT_EQ(fake_slurm.environment, before) << step;
  }
}

TEST_F(Plugin, BadWordsAreRefusedInSrunWithACaret) {
  for (auto context : {S_CTX_LOCAL, S_CTX_ALLOCATOR}) {
    fake_slurm.context = context;
    fake_slurm.errors.clear();
    EXPECT_EQ(call("slurm_spank_init"), 0);
    EXPECT_EQ(option("fspd", 0), -1);
    EXPECT_EQ(
        fake_slurm.errors,
        (std::vector<std::string>{"dist-train: unknown word 'fspd'", "  fspd",
                                  "  ^~~~   did you mean 'fsdp'?  --dist-train=help lists all"}));
  }
}

TEST_F(Plugin, HostileTextOnANodeIsOnlyKept) {
  fake_slurm.context = S_CTX_REMOTE;
  EXPECT_EQ(call("slurm_spank_init"), 0);
  std::string huge(1 << 20, 'x');
  for (const char* text : {"", "(null)", "\xff\xfe\x01", "%s%n%n", "../../etc", huge.c_str(),
                           static_cast<const char*>(nullptr)})
    EXPECT_EQ(option(text, 1), 0);
  EXPECT_TRUE(fake_slurm.errors.empty());
  // The task says what is wrong with it, and does not start.
  one_task_step();
  option("%s%n,\xff", 1);
  EXPECT_EQ(task_init(), 1);
  option(huge.c_str(), 1);
  EXPECT_EQ(task_init(), 1);
}

TEST_F(Plugin, HelpEndsTheCommandWithZero) {
  ASSERT_EQ(call("slurm_spank_init"), 0);
  EXPECT_EXIT(option("help", 0), testing::ExitedWithCode(0), "");
}

TEST_F(Plugin, VoicesHaveTheirOrder) {
  setenv("SLURM_DIST_TRAIN", "omp=2,wait=20", 1);
  setenv(kPassedOn, "ddp,omp=3,env=keep", 1);
  fake_slurm.context = S_CTX_LOCAL;
  ASSERT_EQ(call("slurm_spank_init", {"port=24000-24999", "omp=4"}), 0);
  ASSERT_EQ(option("ddp,omp=3,env=keep", 0), 0); // Slurm hands on what was passed on
  ASSERT_EQ(option("fsdp", 0), 0);               // then the line
  ASSERT_EQ(call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_OPTIONS"),
            "torch,fsdp,env=keep,port=24000-24999,omp=2,wait=20");
}

TEST_F(Plugin, OffBeatsWhatWasPassedOnAndIsSaidAloud) {
  setenv(kPassedOn, "fsdp", 1);
  ASSERT_EQ(call("slurm_spank_init"), 0);
  ASSERT_EQ(option("fsdp", 0), 0);
  ASSERT_EQ(option("off", 0), 0);
  ASSERT_EQ(call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_OPTIONS"), "off");
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_TOKEN"), "(unset)");
  one_task_step();
  auto before = fake_slurm.environment;
  before.erase("SLURM_DIST_TRAIN_OPTIONS");
  EXPECT_EQ(call("slurm_spank_task_init"), 0);
  EXPECT_EQ(fake_slurm.environment, before);
}

TEST_F(Plugin, TheEnvironmentsWordsDoNotSwitchOnButAModeDoes) {
  setenv("SLURM_DIST_TRAIN", "verbose,fsdp", 1);
  ASSERT_EQ(call("slurm_spank_init"), 0);
  ASSERT_EQ(call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_OPTIONS"), "off");
  call("slurm_spank_exit");
  setenv("SLURM_DIST_TRAIN", "on,fsdp", 1);
  ASSERT_EQ(call("slurm_spank_init"), 0);
  ASSERT_EQ(call("slurm_spank_init_post_opt"), 0);
  EXPECT_EQ(variable("SLURM_DIST_TRAIN_OPTIONS"), "torch,fsdp");
  EXPECT_EQ(variable("SLURM_KILL_BAD_EXIT"), "1");
}

TEST_F(Plugin, AWrongVariableOrPlugstackLineEndsTheCommand) {
  setenv("SLURM_DIST_TRAIN", "fspd", 1);
  ASSERT_EQ(call("slurm_spank_init"), 0);
  EXPECT_EXIT(call("slurm_spank_init_post_opt"), testing::ExitedWithCode(1),
              "unknown word 'fspd' in the variable SLURM_DIST_TRAIN");
  unsetenv("SLURM_DIST_TRAIN");
  call("slurm_spank_exit");
  ASSERT_EQ(call("slurm_spank_init", {"prot=1-2"}), 0);
  EXPECT_EQ(call("slurm_spank_init_post_opt"), 0); // who does not ask is not bothered
  EXPECT_TRUE(fake_slurm.errors.empty());
  ASSERT_EQ(fake_slurm.verbose.size(), 1u);
  EXPECT_EQ(fake_slurm.verbose[0],
            "dist-train: the site's plugstack line counts for nothing: unknown key 'prot'");
  ASSERT_EQ(option(nullptr, 0), 0);
  EXPECT_EXIT(call("slurm_spank_init_post_opt"), testing::ExitedWithCode(1),
              "plugstack line: unknown key 'prot'");
}

TEST_F(Plugin, AOneTaskStepRunsThroughBothSides) {
  srun("ddp,port=24000-24999");
  one_task_step();
  ASSERT_EQ(call("slurm_spank_task_init"), 0);
  const auto& e = fake_slurm.environment;
  EXPECT_EQ(e.at("RANK"), "0");
  EXPECT_EQ(e.at("WORLD_SIZE"), "1");
  EXPECT_EQ(e.at("DIST_TRAIN_STEP"), "4711.0");
  EXPECT_EQ(e.at("DIST_TRAIN_STRATEGY"), "ddp");
  EXPECT_EQ(e.at("DIST_TRAIN_LAYOUT"), "192.0.2.1=0");
  EXPECT_EQ(e.at("DIST_TRAIN_TOKEN").size(), 32u);
  int port = std::stoi(e.at("MASTER_PORT"));
  EXPECT_GE(port, 24000);
  EXPECT_LE(port, 24999);
  for (const char* helper :
       {"SLURM_DIST_TRAIN_OPTIONS", "SLURM_DIST_TRAIN_TOKEN", "SLURM_DIST_TRAIN_BROKER"})
    EXPECT_FALSE(e.contains(helper)) << helper;
  close(std::stoi(e.at("DIST_TRAIN_STORE_FD")));
  close(std::stoi(e.at("DIST_TRAIN_PORT_FD")));
  close(std::stoi(e.at("DIST_TRAIN_JAX_FD")));
}

// Slurm's proctrack/linuxproc spares processes called slurmstepd. A code of 1 hides no other one.
TEST_F(Plugin, ATaskThatWaitsForRankZeroCanBeEndedBySlurm) {
  srun(nullptr);
  one_task_step();
  auto& e = fake_slurm.environment;
  e["SLURM_PROCID"] = e["SLURM_LOCALID"] = "1";
  e["SLURM_STEP_NUM_TASKS"] = e["SLURM_STEP_TASKS_PER_NODE"] = "2";
  e["SLURM_GTIDS"] = "0,1";
  pid_t child = fork();
  if (child == 0)
    _exit(call("slurm_spank_task_init") == 0 ? 98 : 99);
  std::string name;
  while (name != "dist-train" && waitpid(child, nullptr, WNOHANG) == 0)
    std::getline(std::ifstream("/proc/" + std::to_string(child) + "/comm"), name);
  ASSERT_EQ(name, "dist-train");
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
}

TEST_F(Plugin, ATaskThatGoesOnHasItsNameAndSignalsBack) {
  srun(nullptr);
  one_task_step();
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "slurmstepd");
    if (call("slurm_spank_task_init") != 0)
      _exit(99);
    std::string name;
    std::getline(std::ifstream("/proc/self/comm"), name);
    struct sigaction term {
    }, alarm{};
    sigaction(SIGTERM, nullptr, &term);
    sigaction(SIGALRM, nullptr, &alarm);
    _exit(name == "slurmstepd" && term.sa_handler == SIG_DFL && alarm.sa_handler == SIG_DFL ? 0
                                                                                            : 98);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Plugin, WrongFactsEndTheTaskOnly) {
  srun(nullptr);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"SLURM_PROCID", "7"},
                                          {"SLURM_PROCID", "x"},
                                          {"SLURM_STEP_NUM_TASKS", "99999999999"},
                                          {"SLURM_GTIDS", "0-99999999"},
                                          {"SLURM_STEP_RESV_PORTS", "1-x"},
                                          {"SLURM_DIST_TRAIN_TOKEN", "short"},
                                          {"SLURM_DIST_TRAIN_OPTIONS", "fspd"}}) {
    one_task_step();
    fake_slurm.environment[name] = value;
    EXPECT_EQ(task_init(), 1) << name << '=' << value;
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_JOB_ID", "SLURM_DIST_TRAIN_TOKEN"}) {
    one_task_step();
    fake_slurm.environment.erase(name);
    EXPECT_EQ(task_init(), 1) << name;
  }
}

} // namespace
