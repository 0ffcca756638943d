#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2154 # what is quoted is for the user's shell; helper.bash sets the layouts
# torchrun as the program of a task, one a node: a job script from before the option, and without any argument.
load helper

# hand_written [OPTION OF sbatch]: a job of 2x2 ranks as it is written where nothing helps.
hand_written() {
  sed "s|@PROGRAM@|$BATS_TEST_DIRNAME/ddp.py|" <<'JOB' | user sh -c 'cat >job.sh'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output=out
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export MASTER_PORT=29500
srun bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 --node_rank=$SLURM_NODEID \
  --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT @PROGRAM@'
JOB
  as_user sbatch --quiet --wait "$@" job.sh || { user cat out; return 1; }
  run -0 user cat out
  agree 4
}

@test "a hand-written job script, unchanged, without the option and with it" {
  hand_written
  hand_written --dist-train
}

@test "no argument" {
  run -0 as_user srun -N2 --ntasks-per-node=1 --dist-train=torchrun,nproc=2 torchrun "$BATS_TEST_DIRNAME/ddp.py"
  agree 4
}

@test "two tasks on a node are refused" {
  refuses "wants one task a node" "${uneven[@]}" --dist-train=torchrun torchrun "$BATS_TEST_DIRNAME/ddp.py"
}
