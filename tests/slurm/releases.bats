#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What differs between Slurm's releases: which one runs, and in which order it deals out the ranks.
load helper

setup_file() {
  # Switches whose order is not that of the nodes' names.
  cat >"$BATS_FILE_TMPDIR/topology.conf" <<'END'
SwitchName=leaf1 Nodes=node02
SwitchName=leaf2 Nodes=node01
SwitchName=leaf3 Nodes=node03
SwitchName=spine Switches=leaf[1-3]
END
  start_cluster tree --conf TopologyPlugin=topology/tree --file "$BATS_FILE_TMPDIR/topology.conf"
}
teardown_file() { stop_clusters; }

release=${DIST_TRAIN_SLURM:-22.05}

@test "every part of the cluster is of the release that was asked for" {
  run -0 root scontrol show config
  [[ $output =~ SLURM_VERSION\ +=\ ([0-9.]+) ]]
  version=${BASH_REMATCH[1]}
  echo "# Slurm $version ran" >&3
  [[ $version == "$release".* ]]
  [ "$(root sinfo -h -o %v)" = "$version" ] # of the slurmds
  [[ $(user srun --version) == *" $version" ]]
}

# Since 26.05 block deals tasks out in the order of the switches, also when it is not asked for by name.
by_topology() { ((${release/./} >= 2605)); }

@test "block distribution in a tree of switches" {
  for distribution in "" "-m block"; do
    # One task a node: that node03 comes last in either order must mislead none of them.
    # shellcheck disable=SC2086 # none or two words
    reports srun -N3 -n3 $distribution --dist-train
    if by_topology; then check node02=0 node01=1 node03=2; else check node01=0 node02=1 node03=2; fi
    # shellcheck disable=SC2086
    reports srun -N2 -n4 --ntasks-per-node=2 $distribution --dist-train
    if by_topology; then check node02=0,1 node01=2,3; else check node01=0,1 node02=2,3; fi
  done
}

@test "cyclic and plane distribution in a tree of switches" {
  reports srun -N3 -n6 --ntasks-per-node=2 -m cyclic --dist-train
  check node01=0,3 node02=1,4 node03=2,5
  reports srun -N3 -n6 --ntasks-per-node=2 -m plane=2 --dist-train
  check node01=0,1 node02=2,3 node03=4,5
}
