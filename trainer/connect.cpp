// SPDX-License-Identifier: BSD-3-Clause
// From the step to collectives: which device, which address, which library.
#include "trainer/comm.h"

#include <libstep/step_torch.hpp>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdlib>
#include <cstring>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dist_train {
namespace {

// This machine's address on the way to host; "" if there is none. Sends nothing.
std::string address_towards(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return "";
  std::string address;
  for (const addrinfo* each = found; each && address.empty(); each = each->ai_next) {
    const int fd = socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
      continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST];
    if (::connect(fd, each->ai_addr, each->ai_addrlen) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      address = text;
    close(fd);
  }
  freeaddrinfo(found);
  return address;
}

// The plugin's or the user's interface, the first if there are several; else the way to rank 0.
GlooEndpoint gloo_endpoint(step_t* step) {
  const char* names = std::getenv("GLOO_SOCKET_IFNAME");
  if (names && *names)
    return {std::string(names, std::strcspn(names, ",")), ""};
  const int port = step_master_port(step) > 0 ? step_master_port(step) : 9;
  return {"", address_towards(step_master_address(step), port)};
}

// One group's communicator. Its ranks are on one node when `one_node`.
std::unique_ptr<Comm> open_group(step_t* step, const Group& group, at::Device device, bool one_node,
                                 Transport transport) {
  if (group.world_size == 1)
    return make_alone(device);
#ifdef DIST_TRAIN_CUDA
  if (device.is_cuda())
    return make_nccl(group, device);
#endif
  if (one_node && transport == Transport::fastest)
    if (auto shared = make_shared_memory(group))
      return shared;
  return make_gloo(group, gloo_endpoint(step));
}

} // namespace

Result<Links> connect(step_t* step, Transport transport, bool by_node, double timeout_seconds) {
  const int rank = step_rank(step), world = step_world_size(step);
  const int local = step_local_rank(step), local_world = step_local_world_size(step);
  const std::chrono::milliseconds timeout(int64_t(timeout_seconds * 1000));
  at::Device device = at::kCPU;
#ifdef DIST_TRAIN_CUDA
  if (const auto gpu = own_gpu(local))
    device = *gpu;
#endif
  try {
    const auto store = c10::make_intrusive<StepStore>(step);
    store->setTimeout(timeout);
    const auto group = [&](const std::string& name, int group_rank, int size) {
      return Group{c10::make_intrusive<c10d::PrefixStore>(name, store), group_rank, size, timeout};
    };
    const bool one_node = local_world == world;
    if (!by_node)
      return Links{open_group(step, group("all", rank, world), device, one_node, transport),
                   make_alone(device)};
    const auto node = "node" + std::to_string(step_node_rank(step));
    const auto across = "local" + std::to_string(local);
    auto shards = open_group(step, group(node, local, local_world), device, true, transport);
    return Links{std::move(shards),
                 open_group(step, group(across, step_node_rank(step), step_node_count(step)),
                            device, false, transport)};
  } catch (const std::exception& failure) {
    const std::string what = failure.what(); // below the first line is a stack trace
    return Error{"cannot connect to the other ranks: " + what.substr(0, what.find('\n')),
                 "do all nodes reach each other's addresses? GLOO_SOCKET_IFNAME or "
                 "NCCL_SOCKET_IFNAME choose the network"};
  }
}

} // namespace dist_train
