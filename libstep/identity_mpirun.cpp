// SPDX-License-Identifier: BSD-3-Clause
// mpirun: its processes know rank and place, but not where rank 0 is, unless all are on one host.
#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {
namespace {

struct Mpi {
  std::string_view name, rank, size, local_rank, local_size;
  std::string_view job; // the same in all ranks and another for each mpirun; "" if there is none
  std::string_view set; // how its mpirun gives the ranks a variable
};
constexpr Mpi kOpenMpi{"Open MPI",
                       "OMPI_COMM_WORLD_RANK",
                       "OMPI_COMM_WORLD_SIZE",
                       "OMPI_COMM_WORLD_LOCAL_RANK",
                       "OMPI_COMM_WORLD_LOCAL_SIZE",
                       "PMIX_NAMESPACE",
                       "mpirun -x MASTER_ADDR=HOST"};
// srun --mpi=pmi2 sets the first two as well, but not those of the host.
constexpr Mpi kHydra{"MPICH or Intel MPI",
                     "PMI_RANK",
                     "PMI_SIZE",
                     "MPI_LOCALRANKID",
                     "MPI_LOCALNRANKS",
                     "",
                     "mpirun -genv MASTER_ADDR HOST"};

const Mpi* mpi_of(const Variables& variables) {
  if (variables.has(kOpenMpi.rank) || variables.has(kOpenMpi.size))
    return &kOpenMpi;
  return variables.has(kHydra.local_size) && variables.has(kHydra.rank) ? &kHydra : nullptr;
}

// mpirun's daemons on other nodes are a step of Slurm's, one task on each; tasks of another step
// have inherited the variables of an mpirun around it.
void expect_daemons_step(Variables& variables, const Identity& identity, const Mpi& mpi) {
  if (!in_slurm_step(variables))
    return;
  const auto tasks = variables.number("SLURM_STEP_NUM_TASKS", 1, kMaxWorld, 1);
  const auto nodes = variables.number("SLURM_STEP_NUM_NODES", 1, kMaxWorld, tasks);
  if (tasks > nodes || (tasks > 1 && identity.world == 1))
    variables.complain({"SLURM_STEP_NUM_TASKS=" + std::to_string(tasks) + " and " +
                            std::string(mpi.size) + "=" + std::to_string(identity.world) +
                            " are of an srun and an mpirun, one inside of the other, and which "
                            "of them counts cannot be told",
                        "start the program by one of them; before an srun inside of mpirun, "
                        "unset " +
                            std::string(mpi.rank) + " and " + std::string(mpi.size)});
}

} // namespace

bool by_mpirun(const Variables& variables) { return mpi_of(variables) != nullptr; }

void expect_mpirun_to_agree(Variables& variables, const Identity& identity,
                            std::string_view because) {
  if (const Mpi* mpi = mpi_of(variables)) {
    variables.expect(mpi->rank, identity.rank, because);
    variables.expect(mpi->size, identity.world, because);
  }
}

Result<Identity> mpirun_identity(Variables variables, const std::string& host_name) {
  const Mpi& mpi = *mpi_of(variables);
  Identity identity;
  identity.source = STEP_SOURCE_MPIRUN;
  identity.world = variables.need_number(mpi.size, 1, kMaxWorld);
  identity.rank = variables.need_number(mpi.rank, 0, identity.world - 1);
  identity.local_world = variables.need_number(mpi.local_size, 1, identity.world);
  identity.local_rank = variables.need_number(mpi.local_rank, 0, identity.local_world - 1);
  identity.source_text = "mpirun (" + std::string(mpi.name) + ")";
  identity.node_name = host_name;
  const bool one_host = identity.local_world == identity.world;
  identity.layout_told = one_host;
  identity.nodes.assign(identity.world, one_host ? host_name : "");
  identity.nodes[identity.rank] = host_name;
  if (!one_host) // until the ranks have met
    identity.node_count = 2;
  expect_daemons_step(variables, identity, mpi);
  // A script between mpirun and the program may set them, from mpirun's; others are left over.
  variables.expect("RANK", identity.rank, mpi.rank);
  variables.expect("WORLD_SIZE", identity.world, mpi.size);

  identity.master_address = variables.text("MASTER_ADDR");
  if (identity.master_address.empty()) {
    identity.master_address = "127.0.0.1";
    if (!one_host)
      variables.complain(
          {"MASTER_ADDR is not set, and of the " + std::to_string(identity.world) +
               " ranks of mpirun only " + std::to_string(identity.local_world) +
               " are on this host: where rank 0 is, mpirun does not tell",
           std::string(mpi.set) + ", with the host that rank 0 runs on, the first of mpirun's"});
  }
  expect_host_name(variables, "MASTER_ADDR", identity.master_address);
  // Two programs at once must not meet each other.
  if (identity.world > 1 && !variables.has(mpi.job))
    (void)variables.need_text("MASTER_PORT", kPortHint);
  identity.master_port = static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, 65535, 0));
  if (variables.problem())
    return *variables.problem();
  derive_meeting_at_master(identity, variables.text(mpi.job));
  return identity;
}

} // namespace dist_train
