// SPDX-License-Identifier: BSD-3-Clause
// The machine layer, on this machine: ports of its own choosing, its own interfaces and mask.
#include "libstep/os/affinity.h"
#include "libstep/os/command.h"
#include "libstep/os/connect.h"
#include "libstep/os/interfaces.h"
#include "libstep/os/nccl_conf.h"
#include "libstep/os/port.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace dist_train {
namespace {

using namespace std::chrono_literals;

bool can_bind(std::uint16_t port, bool reuse) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = reuse;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         listen(fd.get(), 1) == 0;
}

TEST(Command, WhatAProgramSaysAndHowItEnds) {
  auto said = run_command({"sh", "-c", "echo one; echo two >&2; printf ' \n'"}, 30s);
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(*said, "one\ntwo");
  EXPECT_EQ(run_command({"sh", "-c", "echo why; exit 3"}, 30s).error().message,
            "sh -c echo why; exit 3: why");
  EXPECT_EQ(run_command({"false"}, 30s).error().message, "false: failed without a word");
  EXPECT_EQ(run_command({"/no/such"}, 30s).error().message,
            "cannot run /no/such: No such file or directory");
  auto long_one = run_command({"head", "-c", "1000000", "/dev/zero"}, 30s);
  ASSERT_TRUE(long_one) << long_one.error().message; // the pipe did not fill up
  EXPECT_LT(long_one->size(), 8192u);
}

TEST(Command, OneThatTakesTooLongOrIsNotWantedIsGone) {
  EXPECT_EQ(run_command({"sleep", "1000"}, 10ms).error().message,
            "sleep 1000 did not end within 0 s");
  auto command = std::make_unique<Result<Command>>(Command::start({"sleep", "1000"}, 30s));
  ASSERT_TRUE(*command);
  EXPECT_FALSE((*command)->look());
  command.reset();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1); // no child is left
}

TEST(Ports, AHeldPortYieldsToReuseOnly) {
  for (bool over_lingering : {false, true}) {
    auto held = hold_port(0, over_lingering);
    ASSERT_TRUE(held);
    auto port = port_of(*held);
    ASSERT_NE(port, 0);
    EXPECT_FALSE(can_bind(port, false));
    EXPECT_TRUE(can_bind(port, true));
    EXPECT_FALSE(hold_port(port, false)); // somebody may come back to it
    EXPECT_TRUE(hold_port(port, true));
  }
}

TEST(Ports, AListeningPortYieldsToNobodyAndSaysWhichOne) {
  auto listening = listen_on(0, true);
  ASSERT_TRUE(listening);
  auto port = port_of(*listening);
  EXPECT_FALSE(can_bind(port, false));
  EXPECT_FALSE(can_bind(port, true));
  for (bool over_lingering : {false, true}) {
    auto second = listen_on(port, over_lingering);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().message,
              "cannot bind port " + std::to_string(port) + ": Address already in use");
  }
  EXPECT_FALSE(hold_port(port, true));
}

TEST(Ports, AreHandedOverAboveTheNumbersOfScripts) {
  auto fd = hand_over(*hold_port(0, false));
  ASSERT_TRUE(fd);
  Fd owner(*fd);
  EXPECT_GE(*fd, 100);
  EXPECT_EQ(fcntl(*fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(port_of(owner), 0);
}

TEST(Connect, ReachesAListenerAndNamesARefusal) {
  auto listener = *listen_on(0, false);
  auto port = port_of(listener);
  auto deadline = std::chrono::steady_clock::now() + 5s;
  EXPECT_TRUE(connect_to("127.0.0.1", port, deadline));
  listener.reset();
  int reason = 0;
  auto refused = connect_to("127.0.0.1", port, deadline, &reason);
  ASSERT_FALSE(refused);
  EXPECT_EQ(reason, ECONNREFUSED);
  EXPECT_EQ(refused.error().message,
            "cannot connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
  EXPECT_FALSE(connect_to("no.such.host.invalid", port, deadline));
}

TEST(Connect, TellsAnAnswerFromNone) {
  auto soon = [] { return std::chrono::steady_clock::now() + 300ms; };
  auto listener = *listen_on(0, false);
  auto port = port_of(listener);
  auto yes = listens("127.0.0.1", port, soon());
  ASSERT_TRUE(yes);
  EXPECT_TRUE(*yes);
  listener.reset();
  auto no = listens("127.0.0.1", port, soon());
  ASSERT_TRUE(no) << no.error().message;
  EXPECT_FALSE(*no);
  EXPECT_FALSE(listens("224.0.0.1", port, soon())); // a group: TCP has no way there
  EXPECT_FALSE(listens("no.such.host.invalid", port, soon()));
}

const std::vector<InterfaceAddress> kInterfaces{
    {"lo", "127.0.0.1", true},  {"eth0", "10.0.0.5", false},      {"eth1", "192.168.7.5", false},
    {"ib0", "10.8.0.5", false}, {"docker0", "172.17.0.1", false}, {"eth0", "fd00::5", false}};

TEST(SelectInterfaces, ByNamePrefixSubnetAndExclusion) {
  struct Case {
    const char* list;
    std::vector<std::string> addresses;
  };
  for (const Case& c : {
           Case{"ib0", {"10.8.0.5"}},
           Case{"eth", {"10.0.0.5", "192.168.7.5", "fd00::5"}},
           Case{"ib+eth1", {"10.8.0.5", "192.168.7.5"}},
           Case{"10.8.0.0/16", {"10.8.0.5"}},
           Case{"fd00::/8", {"fd00::5"}},
           Case{"^docker+^eth0", {"192.168.7.5", "10.8.0.5"}},
           Case{"eth+^192.168.0.0/16", {"10.0.0.5", "fd00::5"}},
           Case{"lo", {"127.0.0.1"}},
           Case{"wlan", {}},
           Case{"10.0.0.0/99", {}},
           Case{"l", {}},
       }) {
    std::vector<std::string> got;
    for (const auto& entry : select_interfaces(c.list, kInterfaces))
      got.push_back(entry.address);
    EXPECT_EQ(got, c.addresses) << c.list;
  }
}

TEST(Interfaces, LoopbackIsThereAndIsTheWayToItself) {
  bool found = false;
  for (const auto& entry : interface_addresses())
    found = found || (entry.loopback && entry.address == "127.0.0.1");
  EXPECT_TRUE(found);
  EXPECT_EQ(source_towards("127.0.0.1").address, "127.0.0.1");
  EXPECT_EQ(source_towards("not an address").address, "");
}

TEST(Interfaces, ResolvingLeavesLoopbackOut) {
  EXPECT_TRUE(resolve("localhost").empty());
  EXPECT_TRUE(resolve("no.such.host.invalid").empty());
  EXPECT_EQ(resolve("192.0.2.7"), (std::vector<std::string>{"192.0.2.7"}));
}

TEST(Affinity, TheMaskOfThisThread) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  auto cpus = allowed_cpus();
  EXPECT_EQ(cpus.size(), static_cast<std::size_t>(CPU_COUNT(&set)));
  auto cores = count_cores(cpus);
  EXPECT_GE(cores, 1u);
  EXPECT_LE(cores, cpus.size());
  EXPECT_EQ(count_cores({}), 0u);
  EXPECT_EQ(count_cores({cpus.front(), cpus.front()}), 1u);
}

TEST(NcclConf, NamesWhatItsLinesSet) {
  using Names = std::set<std::string>;
  EXPECT_EQ(nccl_conf_names("# NCCL_DEBUG=INFO\nNCCL_IB_HCA==mlx5_0\n\n=x\nnonsense\nA=1"),
            (Names{"NCCL_IB_HCA", "A"}));
  EXPECT_EQ(nccl_conf_names(std::string("\0\xff=", 3)).size(), 1u);
  EXPECT_EQ(nccl_conf_names(""), Names{});
}

TEST(NcclConf, OnlyRegularFilesOfTheUsersFolderAreRead) {
  char folder[] = "/tmp/dist-train-nccl.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto path = std::string(folder) + "/.nccl.conf";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(read_nccl_conf(folder).contains("NCCL_X_TEST")); // and does not wait for a writer
  unlink(path.c_str());
  FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("NCCL_X_TEST=1\n", file);
  std::fclose(file);
  EXPECT_TRUE(read_nccl_conf(folder).contains("NCCL_X_TEST"));
  EXPECT_FALSE(read_nccl_conf("").contains("NCCL_X_TEST"));
  unlink(path.c_str());
  rmdir(folder);
}

// What NCCL takes by itself: names that begin with "ib", else all but Docker's and libvirt's.
TEST(NcclInterfaces, AreSaidWhereNcclsOwnChoiceWouldBeWrong) {
  const InterfaceAddress lo{"lo", "127.0.0.1", true}, eth0{"eth0", "10.0.0.1"},
      eth1{"eth1", "10.1.0.1"}, ib0{"ib0", "10.2.0.1"}, docker{"docker0", "172.17.0.1"},
      calico{"cali12", "10.9.0.1"}, bmc{"eth9", "169.254.3.1"};
  EXPECT_EQ(nccl_interfaces({lo, eth0}, "eth0"), "");
  EXPECT_EQ(nccl_interfaces({lo, eth0, eth1, docker}, "eth1"), ""); // both, and it is right
  EXPECT_EQ(nccl_interfaces({lo, eth0, ib0}, "ib0"), "");
  EXPECT_EQ(nccl_interfaces({lo, eth0, ib0}, "eth0"), "=eth0"); // it would take ib0
  EXPECT_EQ(nccl_interfaces({lo, eth0, eth1, calico, bmc}, "eth0"), "=eth0,eth1");
  EXPECT_EQ(nccl_interfaces({lo, calico}, "cali12"), ""); // a container's only one
  EXPECT_EQ(nccl_interfaces({lo, docker}, "docker0"), "=docker0");
  EXPECT_EQ(nccl_interfaces({lo, eth0}, ""), "");
  EXPECT_EQ(nccl_exactly({eth1, eth0, eth1}), "=eth1,eth0");
}

TEST(Affinity, BindingHoldsAndReachIsFoundWithoutChangingIt) {
  auto before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  auto last = IdSet{before.back()};
  ASSERT_TRUE(bind_to_cpus(last));
  EXPECT_EQ(allowed_cpus(), last);
  EXPECT_EQ(intersection(reachable_cpus(), before), before);
  EXPECT_EQ(allowed_cpus(), last);
  EXPECT_FALSE(bind_to_cpus({}));
  EXPECT_FALSE(bind_to_cpus({1u << 20}));
  ASSERT_TRUE(bind_to_cpus(before));
}

TEST(Affinity, MemoryIsPreferredOnNodesThatAreAllowed) {
  auto nodes = allowed_memory();
  ASSERT_FALSE(nodes.empty());
  EXPECT_TRUE(prefer_memory_of({nodes.front()}));
  EXPECT_FALSE(prefer_memory_of({}));
  EXPECT_FALSE(prefer_memory_of({1023}));
}

} // namespace
} // namespace dist_train
