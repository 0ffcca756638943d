#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016
# What the tasks of a step get, where Slurm reserves ports (MpiParams=ports=) and where it does not.
load helper

setup_file() {
  start_cluster reserved
  start_cluster broker --no-reserved-ports
}
teardown_file() { stop_clusters; }

uneven() {
  reports srun -N3 -n6 --gpus-per-node=2 --dist-train
  check node01=0,1,2,3 node02=4 node03=5
}
@test "4+1+1 tasks get the contract's variables (reserved ports)" { on reserved; uneven; }
@test "4+1+1 tasks get the contract's variables (broker)" { on broker; uneven; }

@test "one task on one node" {
  on reserved
  reports srun --dist-train
  check node01=0
}

@test "srun's --label and a file for each task carry the numbers of the ranks" {
  on reserved
  user sh -c 'printf "node02\nnode01\nnode01\n" >hosts'
  ranks="env SLURM_HOSTFILE=hosts srun -m arbitrary -n3 --dist-train"
  # shellcheck disable=SC2086 # words
  run -0 user $ranks --label printenv RANK
  [ "$(sort <<<"$output")" = $'0: 0\n1: 1\n2: 2' ]
  # shellcheck disable=SC2086
  user $ranks --output=rank-%t printenv RANK
  [ "$(user cat rank-0 rank-1 rank-2)" = $'0\n1\n2' ]
}

untouched() {
  user sh -c 'cat >job.sh' <<'SH'
#!/bin/sh
env >batch
srun --dist-train=off env >plain
srun env >asked
SH
  user sbatch --wait -N2 -n3 --dist-train=fsdp job.sh
  [ "$(user grep -cE "$ours" batch)" = 0 ]
  [ "$(user grep -cE "$ours" plain)" = 0 ]
  [ "$(user grep -cE '^RANK=' asked)" = 3 ]
  user srun env >"$BATS_TEST_TMPDIR/plain"
  [ "$(grep -cE "$ours" "$BATS_TEST_TMPDIR/plain")" = 0 ]
}
@test "the batch step and steps that do not ask get nothing (reserved ports)" { on reserved; untouched; }
@test "the batch step and steps that do not ask get nothing (broker)" { on broker; untouched; }

@test "the user's own settings: OMP_NUM_THREADS stays, stale ranks go" {
  on reserved
  reports env OMP_NUM_THREADS=7 RANK=99 LOCAL_RANK=99 TORCHELASTIC_RUN_ID=stale PET_NNODES=4 \
    srun -N2 -n2 --dist-train
  USERS_THREADS=7 check node01=0 node02=1
}
