#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2154 # what is quoted is for a task's shell; what helper and run set
# Modes of --dist-train: what each gives its tasks, and what it refuses before anything can hang.
load helper

setup_file() {
  start_cluster modes --gpus 2
  start_cluster few --gpus 0 --nodes 2 --conf MpiParams=ports=12000-12001
}
setup() { on modes; }
teardown_file() { stop_clusters; }

# refused TEXT COMMAND...: ends at once with an error (a task's own, or that of one ended along); TEXT is in the one
# line that we say, and no program has started.
refused() {
  local said=$1 begin=$SECONDS
  shift
  user rm -f started
  run --separate-stderr user "$@" touch started
  [ "$status" -ne 0 ]
  [ $((SECONDS - begin)) -le 20 ]
  [ "$(grep -c 'dist-train' <<<"$stderr")" = 1 ]
  [[ $(grep 'dist-train' <<<"$stderr") == *"$said"* ]]
  run -1 user test -e started
  eventually 20 all_idle
}

# Variables of the tasks, sorted, each value once: values NAME SRUN_ARGUMENT...
values() { user srun "${@:2}" printenv "$1" | sort -u | paste -sd ' '; }

@test "torchrun and ray take one task a node: more are refused before anything is allocated" {
  local before after mode
  before=$(next_job)
  for mode in torchrun ray; do
    refused "mode $mode wants one task a node, not 4 tasks on 2 nodes; give srun --ntasks-per-node=1" \
      srun -N2 -n4 --dist-train=$mode
    refused "mode $mode wants one task a node, not 2 tasks on 1 node" srun --ntasks-per-node=2 --dist-train=$mode
  done
  after=$(next_job)
  [ "$after" -eq $((before + 1)) ]
  # Where only the allocation tells.
  refused "mode torchrun wants one task a node, not 3 tasks on node01" srun -n3 --dist-train=torchrun
  refused "mode ray wants one task a node, not 2 tasks on node01" \
    salloc -N2 -n3 srun --dist-train=ray
}

@test "torchrun: its static arguments from the step, no rank, and a port that rank 0's node holds" {
  reports env RANK=9 JAX_PROCESS_ID=9 srun -N3 -n3 --gpus-per-node=2 --dist-train=torchrun
  local name
  for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK ROLE_RANK JAX_PROCESS_ID; do
    [ "$(reported $name)" = '(unset)' ]
  done
  [ "$(reported PET_NODE_RANK)" = $'0\n1\n2' ]
  [ "$(reported NODE_RANK)" = $'0\n1\n2' ]
  [ "$(reported PET_NNODES) $(reported PET_NPROC_PER_NODE) $(reported PET_RDZV_BACKEND)" = '3 2 static' ]
  [ "$(reported PET_MASTER_ADDR)" = 10.77.0.1 ]
  [ "$(reported PET_MASTER_PORT)" = "$(reported MASTER_PORT)" ]
  [[ $(reported PET_MASTER_PORT) =~ ^[0-9]+$ ]]
  [ "$(values PET_NPROC_PER_NODE -N2 -n2 --dist-train=torchrun,nproc=3)" = 3 ]
  run -0 --separate-stderr user env PET_NNODES=9 PET_MAX_RESTARTS=2 srun -N2 -n2 --dist-train=torchrun \
    printenv PET_NNODES PET_MAX_RESTARTS
  [ "$(sort -u <<<"$output" | paste -sd ' ')" = 2 ]
  [ "$(grep -c "PET_NNODES is 2, not your '9'" <<<"$stderr")" = 1 ]
}

@test "the real torchrun needs no argument: 2 nodes of 2 ranks meet and add up, libstep's identity is a worker's" {
  user sh -c 'cat >worker.py' <<'PY'
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([1.0 + dist.get_rank()])
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], "node",
      os.environ["GROUP_RANK"], os.environ["NODE_RANK"], "sum", total.item(), os.environ["TORCHELASTIC_RUN_ID"])
dist.barrier()
dist.destroy_process_group()
PY
  limit=$torch_limit run -0 user srun -N2 -n2 --gpus-per-node=2 --dist-train=torchrun \
    "$python" -m torch.distributed.run worker.py
  local step
  step=$(sed -n 's/.* sum 10.0 //p' <<<"$output" | sort -u)
  [[ $step =~ ^[0-9]+\.0$ ]]
  # Without its beginning: torchrun starts python -u, whose end of a line is a write of its own.
  [ "$(grep -oE 'rank [0-3] of 4 local [01] node [01] [01] sum 10.0' <<<"$output" | sort)" = "$(
    printf 'rank %s of 4 local %s node %s %s sum 10.0\n' 0 0 0 0 1 1 0 0 2 0 1 1 3 1 1 1)" ]
}

@test "ray: address and number of nodes, and nothing of a rank" {
  run -0 user env RANK=9 srun -N3 -n3 --dist-train=ray sh -c 'env | grep -E "^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|PET_.*)="'\
' && exit 1; echo $DIST_TRAIN_RAY_NODES $DIST_TRAIN_RAY_ADDRESS ${DIST_TRAIN_RAY_CPUS:?}'
  [ "$(sort -u <<<"$output" | wc -l)" = 1 ]
  # Slurm reserves 12000 and up here, among which Ray wants its workers.
  [[ ${lines[0]} =~ ^3\ 10\.77\.0\.1:2[3-7][0-9]{3}\ [0-9]+$ ]]
  run -0 user srun -N2 -n2 --dist-train=ray dist-train env --json
  [ "$(grep -o '"rank": [01], "world_size": 2' <<<"$output" | sort | paste -sd,)" = \
    '"rank": 0, "world_size": 2,"rank": 1, "world_size": 2' ]
}

@test "ray: two steps at once on a node have heads of their own" {
  user rm -rf first second
  local srun="srun -w node01 -n1 --gpus-per-node=1 --dist-train=ray $python $report"
  user sh -c "$srun first second/0.json & $srun second first/0.json && wait \$!"
  run -0 user grep -hoE '"DIST_TRAIN_RAY_ADDRESS": "[^"]+"' first/0.json second/0.json
  [ "$(sort -u <<<"$output" | wc -l)" = 2 ]
}

@test "jax: a coordinator's port also where Slurm reserves too few" {
  on few
  run -0 user srun -N2 -n2 --dist-train=torch sh -c 'echo $SLURM_STEP_RESV_PORTS ${JAX_COORDINATOR_PORT-none}'
  [[ $output == *none* ]]
  run -0 user srun -N2 -n2 --dist-train=jax printenv JAX_COORDINATOR_ADDRESS
  [ "$(sort -u <<<"$output" | wc -l)" = 1 ]
  [[ ${lines[0]} =~ ^10\.77\.0\.1:2[3-7][0-9]{3}$ ]]
}

@test "lightning: the step's tasks per node whatever the job's; uneven steps are refused" {
  [ "$(values SLURM_NTASKS_PER_NODE -N2 -n4 -c4 --dist-train=lightning)" = 2 ]
  [ "$(values SLURM_NTASKS_PER_NODE -N2 -n4 -c4 --dist-train)" = "" ]
  user sh -c 'printf "#!/bin/sh\nsrun -n2 printenv SLURM_NTASKS_PER_NODE >one\n" >job.sh'
  user sbatch --wait -N2 --ntasks-per-node=4 --dist-train=lightning job.sh
  [ "$(user sort -u one)" = 1 ]
  refused "mode lightning wants equally many tasks on each node, not 3 tasks on 2 nodes; give srun --ntasks-per-node=N" \
    srun -N2 -n3 --dist-train=lightning
  for layout in -N3 '-N3 --distribution=block'; do
    # shellcheck disable=SC2086 # words
    refused "mode lightning wants equally many tasks on each node, not 4 tasks on node01 and 1 on node02" \
      srun $layout -n6 --dist-train=lightning
  done
}

@test "megatron: a tensor-parallel group that would span nodes is refused, whatever the layout" {
  refused "with --tensor-model-parallel-size 4 rank 1 is on node01, rank 2 on node02" \
    srun -N2 --ntasks-per-node=2 --dist-train=megatron env X=1 --tensor-model-parallel-size 4
  refused "with --tensor-model-parallel-size 2 rank 0 is on node01, rank 1 on node02" \
    srun -N2 -n4 --distribution=cyclic --dist-train=megatron env X=1 --tensor-model-parallel-size=2
  refused "mode megatron wants neighbouring ranks on one node, and node01 has ranks 0,2" \
    srun -N2 -n4 --distribution=cyclic --dist-train=megatron
  run -0 user srun -N2 --ntasks-per-node=2 --dist-train=megatron sh -c 'echo $RANK' --tensor-model-parallel-size 2
  [ "$(sort -n <<<"$output" | paste -sd ' ')" = "0 1 2 3" ]
  run -0 --separate-stderr user srun -N2 -n4 --distribution=cyclic --dist-train=megatron,dry-run true \
    --tensor-model-parallel-size 1
}

@test "GPUs that tasks do not share: refused where the mode's framework is sure to fail, else said" {
  local mode begin
  for mode in lightning deepspeed megatron; do
    begin=$SECONDS
    run --separate-stderr user srun -N1 -n2 --gpus-per-task=1 --dist-train=$mode sleep 30
    [ "$status" -ne 0 ]
    [ $((SECONDS - begin)) -le 20 ]
    [ "$(grep -c "mode $mode takes the GPU at LOCAL_RANK, which fails beyond the first" <<<"$stderr")" = 1 ]
    [[ $stderr == *"the step is ended"* ]]
  done
  run -0 --separate-stderr user srun -N1 -n2 --gpus-per-task=1 --dist-train=jax true
  [[ $stderr != *LOCAL_RANK* ]]
  refused "mode megatron takes the GPU at the position LOCAL_RANK, and with gpus=own" \
    srun -N1 -n2 --gpus-per-node=2 --dist-train=megatron,gpus=own
}

@test "deepspeed: what its launcher sets, and nothing of an mpirun around srun" {
  run -0 --separate-stderr user env OMPI_COMM_WORLD_LOCAL_RANK=7 srun -N2 -n3 --dist-train=deepspeed,strategy=zero2 \
    sh -c 'echo $RANK $CROSS_RANK $CROSS_SIZE $LOCAL_SIZE $DIST_TRAIN_MODE $DIST_TRAIN_STRATEGY ${OMPI_COMM_WORLD_LOCAL_RANK-none}'
  [ "$(sort <<<"$output")" = "0 0 2 2 deepspeed zero2 none
1 0 2 2 deepspeed zero2 none
2 1 2 1 deepspeed zero2 none" ]
  [ "$(grep -c 'OMPI_COMM_WORLD_LOCAL_RANK of an mpirun around srun is removed' <<<"$stderr")" = 1 ]
}
