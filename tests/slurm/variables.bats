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

# Names that no step may see which did not ask.
ours='^(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_.*|ROLE_.*|MASTER_.*|DIST_TRAIN_.*|GLOO_.*|TP_.*|JAX_.*|OMP_NUM_THREADS)='

# reports COMMAND...: runs it with the reports in a fresh folder; check NODE=RANKS... looks at them.
reports() {
  user sh -c 'rm -rf reports && mkdir reports'
  user "$@" python3 "$report" reports
}
check() { "$DIST_TRAIN_BUILD/venv/bin/python" "$BATS_TEST_DIRNAME/check_step.py" "$("$cluster" home)/reports" "$@"; }

uneven() {
  reports srun -N3 -n6 --gpus-per-node=2 --dist-train
  check node01=0,1,2,3 node02=4 node03=5
}
@test "4+1+1 tasks get the contract's variables (reserved ports)" { on reserved; uneven; }
@test "4+1+1 tasks get the contract's variables (broker)" { on broker; uneven; }

cyclic() {
  reports srun -N2 -n5 -m cyclic --dist-train=fsdp
  check node01=0,2,3,4 node02=1 # Slurm fills node01's cores first
}
@test "cyclic distribution (reserved ports)" { on reserved; cyclic; }
@test "cyclic distribution (broker)" { on broker; cyclic; }

# Rank 0 runs on the last node, which Slurm's sorted list of nodes does not tell.
arbitrary() {
  user sh -c 'printf "node03\nnode01\nnode02\nnode01\n" >hosts'
  reports env SLURM_HOSTFILE=hosts srun -m arbitrary -n4 --dist-train
  check node03=0 node01=1,3 node02=2
}
@test "arbitrary distribution with rank 0 on the last node (reserved ports)" { on reserved; arbitrary; }
@test "arbitrary distribution with rank 0 on the last node (broker)" { on broker; arbitrary; }

heterogeneous() {
  reports srun -N1 -n2 -w node02 --dist-train : -N1 -n1 -w node01
  check node02=0,1 node01=2
}
@test "heterogeneous step whose first node is not the first by name (reserved ports)" { on reserved; heterogeneous; }
@test "heterogeneous step whose first node is not the first by name (broker)" { on broker; heterogeneous; }

@test "one task on one node" {
  on reserved
  reports srun --dist-train
  check node01=0
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

# Both steps run on the same nodes, and neither ends before the other is in its all-reduce.
two_steps() {
  user rm -f one two
  run -0 --separate-stderr user salloc -Q -N2 -n3 bash -c '
    srun --overlap -n3 --dist-train python3 "$0" one two & first=$!
    srun --overlap -n3 --dist-train python3 "$0" two one && wait $first' "$BATS_TEST_DIRNAME/all_reduce.py"
  [ "$(grep -c '^sum 3 of 3 ranks' <<<"$output")" = 2 ]
  [ "$(grep -o 'port .*' <<<"$output" | sort -u | wc -l)" = 2 ]
}
@test "two steps of a job at the same time on the same nodes (reserved ports)" { on reserved; two_steps; }
@test "two steps of a job at the same time on the same nodes (broker)" { on broker; two_steps; }
