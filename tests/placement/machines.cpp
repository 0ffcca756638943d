// SPDX-License-Identifier: BSD-3-Clause
// Machines of our own making, one for each condition that has misled a launcher.
#include "tests/placement/support.h"

namespace dist_train {

namespace {

std::string hex2(unsigned value) {
  constexpr const char* kDigits = "0123456789abcdef";
  return {kDigits[value / 16 % 16], kDigits[value % 16]};
}

std::string place(unsigned host, const std::string& bridges, unsigned numa,
                  const std::string& cpus) {
  return " host=" + std::to_string(host) + (bridges.empty() ? "" : " bridges=" + bridges) +
         " numa=" + std::to_string(numa) + " cpus=" + cpus;
}

std::string gpu(const std::string& address, const std::string& where) {
  return "gpu " + address + " id=10de:2330" + where + "\n";
}

std::string nic(const std::string& address, const std::string& name, const std::string& where,
                const std::string& port = "1:active:unknown:0", const std::string& kind = "0207") {
  return "nic " + address + " id=15b3:1021 class=" + kind + where + " rdma=" + name +
         " port=" + port + "\n";
}

// Two packages of one node, GPUs and NICs in pairs behind a switch each; NICs numbered against the
// order of the GPUs.
std::string pairs_numbered_backwards() {
  auto text = regular_cpus(2, 1, 16, 2);
  for (unsigned i = 0; i < 8; ++i) {
    auto base = i * 0x20;
    auto bridges = "0000:" + hex2(base) + ":01.0/0000:" + hex2(base + 1) +
                   ":00.0/0000:" + hex2(base + 2) + ":0";
    auto cpus = node_cpus(2, 1, 16, 2, i / 4);
    text += gpu("0000:" + hex2(base + 4) + ":00.0", place(i, bridges + "0.0", i / 4, cpus));
    text += nic("0000:" + hex2(base + 3) + ":00.0", "mlx5_" + std::to_string(7 - i),
                place(i, bridges + "1.0", i / 4, cpus));
  }
  return text;
}

// Four nodes a package; two GPUs share an odd one, in the order 3, 1; each pair ties on a card of
// two ports behind two levels of switches.
std::string gpus_on_odd_nodes() {
  auto text = regular_cpus(2, 4, 8, 1);
  unsigned order[] = {3, 1, 7, 5};
  for (unsigned pair = 0; pair < 4; ++pair) {
    auto node = order[pair];
    auto cpus = node_cpus(2, 4, 8, 1, node);
    auto base = 0x10 + pair * 0x30;
    auto bus = [&](unsigned n) { return "0000:" + hex2(base + n); };
    for (unsigned i = 0; i < 2; ++i) {
      text +=
          gpu(bus(6 + i) + ":00.0", place(node,
                                          bus(0) + ":01.0/" + bus(1) + ":00.0/" + bus(2) +
                                              ":00.0/" + bus(3) + ":0" + std::to_string(i) + ".0",
                                          node, cpus));
      text += nic(bus(9) + ":00." + std::to_string(i), "mlx5_" + std::to_string(18 + pair * 2 + i),
                  place(node, bus(0) + ":01.0/" + bus(1) + ":00.0/" + bus(2) + ":01.0", node, cpus),
                  "1:active:ethernet:100000", "0200");
    }
  }
  return text;
}

// A GPU a node on the outer nodes of each package; the NICs of the first package are down.
std::string near_ports_down() {
  auto text = regular_cpus(2, 4, 4, 2);
  unsigned nodes[] = {1, 2, 6, 7};
  for (unsigned i = 0; i < 4; ++i) {
    auto cpus = node_cpus(2, 4, 4, 2, nodes[i]);
    auto bus = "0000:" + hex2(0x10 + i * 0x20);
    auto bridges = bus + ":01.0/" + bus + ":02.0";
    text += gpu("0000:" + hex2(0x16 + i * 0x20) + ":00.0",
                place(i, bridges + "/0000:" + hex2(0x14 + i * 0x20) + ":00.0", nodes[i], cpus));
    text += nic("0000:" + hex2(0x13 + i * 0x20) + ":00.0", "mlx5_" + std::to_string(i),
                place(i, bus + ":01.0", nodes[i], cpus),
                i < 2 ? "1:down:infiniband:0" : "1:active:infiniband:400000");
  }
  return text + "nic 0000:90:00.0 id=8086:1533 class=0200 host=9 numa=0 cpus=0-3,32-35 net=eno6\n";
}

// Eight cores around each cache have their own GPU; network functions without an RDMA device carry
// the fabric, and a slow Ethernet port sits in the node of one of them.
std::string cache_sized_localities() {
  std::string text, devices;
  for (unsigned node = 0; node < 4; ++node) {
    auto numa = std::to_string(node);
    text += "numa " + numa + " package=0 cpus=" + node_cpus(1, 4, 16, 2, node) + "\n";
    for (unsigned half = 0; half < 2; ++half) {
      auto cache = node * 2 + half;
      text += "cores package=0 cache=" + std::to_string(cache);
      for (unsigned core = cache * 8; core < cache * 8 + 8; ++core)
        text += " " + std::to_string(core) + "," + std::to_string(core + 64);
      text += "\n";
      auto cpus = node_cpus(1, 8, 8, 2, cache);
      devices += "gpu 0000:" + hex2(0xc0 + (7 - cache) * 5) + ":00.0 id=1002:7408" +
                 place(cache, "0000:c0:01." + std::to_string(cache), node, cpus) + "\n";
      if (half == 1)
        devices += "nic 0000:" + hex2(0x80 + node) + ":00.0 id=17db:0501 class=0200" +
                   place(cache, "0000:80:01." + numa, node, cpus) + " net=hsn" + numa + "\n";
    }
  }
  return text + devices + "nic 0000:94:00.0 id=8086:1533 class=0200" +
         place(1, "0000:93:01.0", 0, node_cpus(1, 8, 8, 2, 1)) + " net=ens2\n";
}

// Each package is a processor with its GPU in a PCI domain of its own, split into six.
std::string partitions_of_one_function() {
  auto text = regular_cpus(4, 1, 12, 2);
  for (unsigned i = 0; i < 4; ++i) {
    auto domain = "000" + std::to_string(i);
    auto where = place(i, "", i, node_cpus(4, 1, 12, 2, i));
    for (unsigned part = 0; part < 6; ++part)
      text += "gpu " + domain + ":02:00.0 id=1002:74a0" + where +
              " partition=" + std::to_string(part) + "/6\n";
    text += "nic " + domain + ":01:00.0 id=17db:0501 class=0200" + where + " net=hsn" +
            std::to_string(i) + "\n";
  }
  return text;
}

// Nodes 0 and 8, four threads a core, the first core of each package reserved, nodes of GPU memory
// without CPUs; GPUs and NICs hang on host bridges of their own.
std::string gaps_and_gpu_memory() {
  std::string text;
  for (unsigned package = 0; package < 2; ++package) {
    auto numa = std::to_string(package * 8);
    unsigned first = package * 32 + 4;
    auto cpus = std::to_string(first) + "-" + std::to_string(package * 32 + 31);
    text += "numa " + numa + " package=" + std::to_string(package) + " cpus=" + cpus + "\n";
    text += "cores package=" + std::to_string(package) + " cache=" + std::to_string(package);
    for (unsigned core = first; core < package * 32 + 32; core += 4)
      text += " " + std::to_string(core) + "-" + std::to_string(core + 3);
    text += "\n";
    for (unsigned i = 0; i < 2; ++i) {
      auto domain = "00" + std::to_string(package * 3) + std::to_string(4 + i);
      text += gpu(domain + ":04:00.0", place(package * 4 + i, "", package * 8, cpus));
      text += nic("00" + std::to_string(package * 3) + "3:01:00." + std::to_string(i),
                  "mlx5_" + std::to_string(package * 2 + i),
                  place(package * 4 + 2, "", package * 8, cpus));
      text += "numa " + std::to_string(255 - package * 2 - i) +
              " package=" + std::to_string(package) + " memory=no-cpus\n";
    }
  }
  return text;
}

// Everything is behind one switch of the first package.
std::string all_on_one_package() {
  auto cpus = node_cpus(2, 1, 9, 2, 0);
  std::string up = "0000:02:00.0/0000:03:00.";
  return regular_cpus(2, 1, 9, 2) + gpu("0000:04:00.0", place(0, up + "0", 0, cpus)) +
         gpu("0000:07:00.0", place(0, up + "1", 0, cpus)) +
         nic("0000:08:00.0", "mlx5_0", place(0, up + "2", 0, cpus)) +
         "nic 0000:0c:00.0 id=8086:1521 class=0200 host=0 numa=0 cpus=" + cpus + " net=enp12s0f0\n";
}

// Cloud adapters: RDMA devices without an interface, of the Ethernet class; GPUs on both packages.
std::string cloud_adapter() {
  auto text = regular_cpus(2, 1, 12, 2);
  for (unsigned i = 0; i < 4; ++i)
    text += gpu("0000:" + hex2(0x18 + i * 0x30) + ":00.0",
                place(i, "", i / 2, node_cpus(2, 1, 12, 2, i / 2)));
  auto where = place(9, "", 1, node_cpus(2, 1, 12, 2, 1));
  return text + "nic 0000:c5:00.0 id=1d0f:efa0 class=0200" + where +
         " rdma=rdmap197s0 port=1:active:unknown:0\n" + "nic 0000:c6:00.0 id=1d0f:ec20 class=0200" +
         where + " net=eth0\n";
}

std::string more_gpus_than_cores() {
  auto text = regular_cpus(2, 1, 2, 1);
  for (unsigned i = 0; i < 16; ++i)
    text += gpu("0000:" + hex2(0x30 + i * 8) + ":00.0",
                place(i / 8, "", i / 8, node_cpus(2, 1, 2, 1, i / 8)));
  return text;
}

// InfiniBand on both packages, on the first a RoCE card too, with one of its ports down.
std::string two_fabrics() {
  auto text = regular_cpus(2, 1, 8, 4);
  auto where = [](unsigned i) { return place(i, "", i, node_cpus(2, 1, 8, 4, i)); };
  for (unsigned i = 0; i < 2; ++i)
    text += "gpu 0000:" + hex2(i * 0x80 + 2) + ":00.0 id=1002:67a0" + where(i) + "\n";
  return text + nic("0000:0a:00.0", "mlx5_0", where(0)) +
         nic("0000:16:00.0", "mlx5_1", where(0), "1:active:unknown:0", "0200") +
         nic("0000:16:00.1", "mlx5_2", where(0), "1:down:unknown:0", "0200") +
         nic("0000:92:00.0", "mlx5_3", where(1));
}

// The only adapter is far from every GPU, and a slow Ethernet port is near one.
std::string far_adapter() {
  auto text = regular_cpus(1, 4, 6, 2);
  for (unsigned i = 0; i < 3; ++i)
    text += "gpu 0000:" + hex2(0x10 + i * 0x20) + ":00.0 id=1002:66a1" +
            place(i, "", i, node_cpus(1, 4, 6, 2, i)) + "\n";
  return text + nic("0000:a1:00.0", "mlx5_0", place(3, "", 3, node_cpus(1, 4, 6, 2, 3))) +
         "nic 0000:11:00.0 id=8086:1521 class=0200" + place(0, "", 0, node_cpus(1, 4, 6, 2, 0)) +
         " net=eno1 port=1:active:ethernet:1000\n";
}

// Sixteen GPUs behind switches of switches, four to a NIC; nodes lie as far apart as packages.
std::string sixteen_gpus() {
  auto text = regular_cpus(2, 1, 24, 2);
  for (unsigned i = 0; i < 16; ++i) {
    auto host = i / 8, tree = i / 4;
    auto up = "0000:" + hex2(0x10 + host * 0x80) + ":00.0/0000:" + hex2(0x11 + tree * 0x20) + ":0";
    auto cpus = node_cpus(2, 1, 24, 2, host);
    text +=
        gpu("0000:" + hex2(0x34 + (i ^ 5) * 4) + ":00.0",
            place(host,
                  up + "0.0/0000:" + hex2(0x14 + tree * 0x20) + ":0" + std::to_string(i % 4) + ".0",
                  host, cpus));
    if (i % 4 == 0)
      text += nic("0000:" + hex2(0x12 + tree * 0x20) + ":00.0", "mlx5_" + std::to_string(9 - tree),
                  place(host, up + "1.0", host, cpus));
  }
  return text;
}

// One-threaded cores beside two-threaded ones, and CPUs that are offline.
std::string unlike_cores() {
  auto cpus = std::string("0-11,13,15-16");
  return "numa 0 package=0 cpus=" + cpus +
         "\ncores package=0 cache=0 0-1 2-3 4-5 6-7\ncores package=0 cache=1 8 9 10 11\n"
         "cores package=0 cache=2 13 15 16\n" +
         gpu("0000:01:00.0", place(0, "", 0, cpus)) + gpu("0000:02:00.0", place(0, "", 0, cpus));
}

// Ordinary and fast memory in each quarter of one package, no GPU.
std::string two_memories() {
  auto text = regular_cpus(1, 4, 17, 4);
  for (unsigned i = 0; i < 4; ++i)
    text += "numa " + std::to_string(4 + i) +
            " package=0 memory=other cpus=" + node_cpus(1, 4, 17, 4, i) + "\n";
  return text + nic("0000:02:00.0", "mlx5_0", place(0, "", 0, node_cpus(1, 4, 17, 4, 0)));
}

// CPUs numbered alternately, three GPUs, a NIC whose port state is not known.
std::string alternating_cpus() {
  std::string text, cpus[2] = {"0,2,4,6,8,10,12,14,16,18,20,22", "1,3,5,7,9,11,13,15,17,19,21,23"};
  for (unsigned p = 0; p < 2; ++p) {
    auto package = std::to_string(p);
    text += "numa " + package + " package=" + package + " cpus=" + cpus[p] + "\n";
    text += "cores package=" + package + " cache=" + package;
    for (unsigned core = p; core < 12; core += 2)
      text += " " + std::to_string(core) + "," + std::to_string(core + 12);
    text += "\n";
  }
  return text + gpu("0000:06:00.0", place(0, "", 0, cpus[0])) +
         gpu("0000:11:00.0", place(1, "", 1, cpus[1])) +
         gpu("0000:14:00.0", place(1, "", 1, cpus[1])) +
         "nic 0000:05:00.0 id=15b3:673c class=0c06" + place(0, "", 0, cpus[0]) +
         " rdma=mlx4_0 net=eth2,ib0\n";
}

// InfiniBand beside the accelerated Ethernet of a virtual machine, on one node, no GPU.
std::string accelerated_ethernet() {
  auto cpus = node_cpus(1, 4, 11, 1, 0);
  return regular_cpus(1, 4, 11, 1) + nic("0101:00:00.0", "mlx5_ib0", place(0, "", 0, cpus)) +
         nic("8f23:00:02.0", "mlx5_an0", place(1, "", 0, cpus), "1:active:unknown:0", "0200");
}

// Each GPU behind the switch in its own Ethernet NIC; a card of four InfiniBand functions on a
// narrow link for management.
std::string switch_in_the_nic() {
  auto text = regular_cpus(2, 1, 16, 2);
  for (unsigned i = 0; i < 8; ++i) {
    auto base = 0x10 + i * 0x1c;
    auto cpus = node_cpus(2, 1, 16, 2, i / 4);
    auto up = "0000:" + hex2(base) + ":00.0/0000:" + hex2(base + 1) + ":0";
    text +=
        gpu("0000:" + hex2(base + 6) + ":00.0",
            place(i, up + "0.0/0000:" + hex2(base + 3) + ":00.0/0000:" + hex2(base + 4) + ":00.0",
                  i / 4, cpus));
    text += "nic 0000:" + hex2(base + 2) + ":00.0 id=15b3:1023 class=0200" +
            place(i, up + "1.0", i / 4, cpus) + " pci_rate=1008000 rdma=mlx5_bond_" +
            std::to_string(i) + " port=1:active:unknown:0\n";
  }
  for (unsigned i = 0; i < 4; ++i)
    text += "nic 0000:27:00." + std::to_string(i) + " id=15b3:1021 class=0207" +
            place(20, "0000:26:00.0", 0, node_cpus(2, 1, 16, 2, 0)) + " pci_rate=31504 rdma=mlx5_" +
            std::to_string(2 + i) + " port=1:active:unknown:0\n";
  return text;
}

// Four adapters with each GPU behind one switch, and a slow port on the first switch.
std::string many_nics_each() {
  auto text = regular_cpus(2, 1, 12, 2);
  for (unsigned i = 0; i < 4; ++i) {
    auto base = 0x40 + i * 0x20;
    auto cpus = node_cpus(2, 1, 12, 2, i / 2);
    auto up = "0000:" + hex2(base) + ":00.0/0000:" + hex2(base + 1) + ":0";
    text += gpu("0000:" + hex2(base + 9) + ":00.0", place(i, up + "8.0", i / 2, cpus));
    for (unsigned n = 0; n < 4; ++n)
      text += nic("0000:" + hex2(base + 2 + n) + ":00.0", "mlx5_" + std::to_string(i * 4 + n),
                  place(i, up + std::to_string(n) + ".0", i / 2, cpus), "1:active:ethernet:100000",
                  "0200");
  }
  return text + nic("0000:47:00.0", "mlx5_99",
                    place(0, "0000:40:00.0/0000:41:07.0", 0, node_cpus(2, 1, 12, 2, 0)),
                    "1:active:ethernet:25000", "0200");
}

// One GPU in each domain on its own node, nodes in the order 1, 0, 3, 2; no fabric.
std::string swapped_nodes_no_fabric() {
  auto text = regular_cpus(2, 2, 6, 1);
  for (unsigned i = 0; i < 4; ++i)
    text += gpu("000" + std::to_string(i + 1) + ":00:00.0",
                place(i, "", i ^ 1, node_cpus(2, 2, 6, 1, i ^ 1)));
  return text;
}

// Four GPUs share two NICs on each node; numbers of the NICs have a gap.
std::string four_share_two() {
  auto text = regular_cpus(2, 2, 8, 2);
  for (unsigned node = 0; node < 4; ++node) {
    auto base = 0x08 + node * 0x40;
    auto cpus = node_cpus(2, 2, 8, 2, node);
    auto up = "0000:" + hex2(base) + ":00.0/0000:" + hex2(base + 1) + ":0";
    for (unsigned i = 0; i < 4; ++i)
      text += "gpu 0000:" + hex2(base + 8 + i * 2) + ":00.0 id=1002:740c" +
              place(node, up + "0.0/0000:" + hex2(base + 3) + ":0" + std::to_string(i) + ".0", node,
                    cpus) +
              "\n";
    for (unsigned i = 0; i < 2; ++i)
      text += nic("0000:" + hex2(base + 0x20 + i) + ":00.0", "mlx5_" + std::to_string(node * 3 + i),
                  place(node, up + std::to_string(1 + i) + ".0", node, cpus),
                  "1:active:infiniband:200000");
  }
  return text;
}

// The firmware says nothing about half of the GPUs and one NIC.
std::string half_unknown() {
  auto text = regular_cpus(2, 2, 4, 1);
  for (unsigned i = 0; i < 4; ++i)
    text += gpu("0000:" + hex2(0x10 + i * 0x10) + ":00.0",
                i < 2 ? place(i, "", i, node_cpus(2, 2, 4, 1, i)) : " host=" + std::to_string(i));
  return text + nic("0000:80:00.0", "mlx5_0", " host=9");
}

} // namespace

const std::vector<std::pair<std::string, std::string>>& own_machines() {
  static const std::vector<std::pair<std::string, std::string>> machines{
      {"pairs numbered backwards", pairs_numbered_backwards()},
      {"GPUs on odd nodes", gpus_on_odd_nodes()},
      {"near ports down", near_ports_down()},
      {"cache-sized localities", cache_sized_localities()},
      {"partitions of one function", partitions_of_one_function()},
      {"gaps and GPU memory", gaps_and_gpu_memory()},
      {"all on one package", all_on_one_package()},
      {"cloud adapter", cloud_adapter()},
      {"more GPUs than cores", more_gpus_than_cores()},
      {"two fabrics", two_fabrics()},
      {"two memories", two_memories()},
      {"far adapter", far_adapter()},
      {"sixteen GPUs", sixteen_gpus()},
      {"unlike cores", unlike_cores()},
      {"alternating CPUs", alternating_cpus()},
      {"accelerated Ethernet", accelerated_ethernet()},
      {"switch in the NIC", switch_in_the_nic()},
      {"many NICs each", many_nics_each()},
      {"swapped nodes, no fabric", swapped_nodes_no_fabric()},
      {"four share two", four_share_two()},
      {"half unknown", half_unknown()},
      {"no devices", regular_cpus(1, 1, 4, 1)},
  };
  return machines;
}

} // namespace dist_train
