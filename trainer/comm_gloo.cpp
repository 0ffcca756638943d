// SPDX-License-Identifier: BSD-3-Clause
// The only file that sees Gloo's headers. The torch wheel ships none; those of another Gloo
// release serve, as all code comes from libtorch.
#include "trainer/comm.h"

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO 1
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace dist_train {

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int world_size, std::chrono::milliseconds timeout,
                                            const GlooEndpoint& endpoint) {
  using Group = c10d::ProcessGroupGloo;
  auto options = Group::Options::create(timeout);
  options->devices.push_back(endpoint.interface.empty()
                                 ? Group::createDeviceForHostname(endpoint.address)
                                 : Group::createDeviceForInterface(endpoint.interface));
  return c10::make_intrusive<Group>(store, rank, world_size, options);
}

} // namespace dist_train
