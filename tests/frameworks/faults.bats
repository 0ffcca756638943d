#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2030,SC2031,SC2154 # bats and the helper set them; each test is a subshell
# What makes frameworks wait for five to thirty minutes, or train in worlds of one, where ranks are started by hand.
load helper

setup_file() { start_cluster faults --nodes 3; }

late=$BATS_TEST_DIRNAME/late.sh
two=(srun -N2 -n2 --ntasks-per-node=1)

teardown() {
  eventually 20 all_idle
  run ! root pgrep -f "$BATS_TEST_DIRNAME/.*[.]py"
}

# leaves WHAT [MODE] COMMAND...: the last of two ranks does WHAT instead of joining, when the other waits for it; the
# step ends in seconds.
leaves() {
  local what=$1 mode=torch
  shift
  [[ $1 == *.py ]] || { mode=$1; shift; }
  [[ $1 != *.py ]] || set -- python "$BATS_TEST_DIRNAME/$1" "${@:2}"
  user rm -f left
  run --separate-stderr as_user "${two[@]}" "--dist-train=$mode" "$late" "date +%s >left; $what" "$@"
  echo "$status $stderr"
  [ "$status" -ne 0 ]
  [ $(($(date +%s) - $(user cat left))) -le 15 ]
}
exits() {
  leaves 'exit 3' "$@"
  [ "$(grep -c 'node02: task 1: Exited with exit code 3' <<<"$stderr")" = 1 ]
}

@test "a rank that is killed before it joins: DDP" {
  # shellcheck disable=SC2016 # the rank's
  leaves 'kill -KILL $$' ddp.py
  [[ $stderr == *'node02: task 1: Killed'* ]]
}
@test "a rank that ends before it joins: FSDP2" { exits fsdp2.py; }
@test "a rank that ends before it joins: Accelerate" { exits accelerated.py; }
@test "a rank that ends before it joins: HF Trainer, PEFT" { exits trainer.py; }
@test "a rank that ends before it joins: TRL" { exits trl_trainers.py; }
@test "a node's torchrun that ends before it joins" { exits torchrun torchrun "$BATS_TEST_DIRNAME/ddp.py"; }
@test "a rank that ends before it joins: Lightning" { exits lightning lightning_fit.py; }
@test "a rank that ends before it joins: DeepSpeed" { exits deepspeed deepspeed_zero.py; }
@test "a rank that ends before it joins: Megatron-core" { exits megatron_tp2.py; }
@test "a rank that ends before it joins: JAX" { exits jax jax_mesh.py; }
@test "a rank that ends before it joins: Composer" { exits composer_fit.py; }
@test "a rank that ends before it joins: Ignite" { exits ignite_run.py; }
@test "a rank that ends before it joins: torchtitan" { exits torchtitan_debug.py; }

# joins [NAME=VALUE]...: DDP on two ranks of a user who has exported this.
joins() {
  run -0 --separate-stderr as_user "$@" "${two[@]}" --dist-train python "$BATS_TEST_DIRNAME/ddp.py"
  echo "$stderr"
  agree 2
}
# told NAME VALUE: the user is told once that this is not what counts.
told() { [ "$(grep -c "$1 is .*, not your '$2' (env=keep keeps yours)" <<<"$stderr")" = 1 ]; }

@test "an exported WORLD_SIZE that is one too large, and a RANK of another task" { joins WORLD_SIZE=3 RANK=1 LOCAL_RANK=1; }
@test "an exported TORCHELASTIC_USE_AGENT_STORE=True" { joins TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=1; }
@test "an exported MASTER_PORT that another process has on rank 0's node" {
  joins MASTER_PORT=6818 # slurmd
  told MASTER_PORT 6818
}
@test "an exported MASTER_ADDR of another node" {
  joins MASTER_ADDR=node02 MASTER_PORT=29500
  told MASTER_ADDR node02
}
@test "an exported MASTER_ADDR that does not resolve" {
  joins MASTER_ADDR=nowhere.invalid
  told MASTER_ADDR nowhere.invalid
}
@test "env=keep, and another process has the MASTER_PORT: told, and ended by the first that fails" {
  local begin=$SECONDS
  run --separate-stderr as_user MASTER_PORT=6818 "${two[@]}" --dist-train=env=keep python "$BATS_TEST_DIRNAME/ddp.py"
  echo "$status $stderr"
  [ "$status" -ne 0 ]
  [ $((SECONDS - begin)) -le 120 ]
  [ "$(grep -c "your MASTER_PORT='6818' (env=keep): another program listens there already" <<<"$stderr")" = 1 ]
}

# on_node02 MODE PROGRAM: rank 0 runs on the second node of the step, which its sorted list does not tell.
on_node02() {
  user sh -c 'printf "node02\nnode01\n" >hosts'
  run -0 as_user SLURM_HOSTFILE=hosts srun -n2 -m arbitrary "--dist-train=$1" python "$BATS_TEST_DIRNAME/$2"
  echo "$output"
  agree 2
}
@test "arbitrary distribution with rank 0 on the second node: DDP" { on_node02 torch ddp.py; }
@test "arbitrary distribution with rank 0 on the second node: Accelerate" { on_node02 torch accelerated.py; }
@test "arbitrary distribution with rank 0 on the second node: Ignite" { on_node02 torch ignite_run.py; }
@test "arbitrary distribution with rank 0 on the second node: JAX" { on_node02 jax jax_mesh.py; }

# on_last_nodes MODE PROGRAM: the job's first node is not of the step.
on_last_nodes() {
  run -0 as_user salloc -Q -N3 -n3 "${two[@]}" --relative=1 "--dist-train=$1,verbose" python "$BATS_TEST_DIRNAME/$2"
  echo "$output"
  agree 2
  [[ $output == *"master node02 "* ]]
}
@test "a step on the last two nodes of its job: Lightning" { on_last_nodes lightning lightning_fit.py; }
@test "a step on the last two nodes of its job: Ignite" { on_last_nodes torch ignite_run.py; }
@test "a step on the last two nodes of its job: JAX" { on_last_nodes jax jax_mesh.py; }

@test "uneven tasks and the job's name bash, with which Lightning hangs: refused before anything starts" {
  refuses 'mode lightning wants equally many tasks on each node' \
    srun -J bash -N2 -n3 --dist-train=lightning python "$BATS_TEST_DIRNAME/lightning_fit.py"
}
@test "cyclic distribution: Lightning" {
  run -0 as_user srun -N2 --ntasks-per-node=2 -m cyclic --dist-train=lightning python "$BATS_TEST_DIRNAME/lightning_fit.py"
  echo "$output"
  agree 4
}

@test "what agree() is for: under a bare srun Accelerate trains in worlds of one, and nothing fails" {
  run -0 as_user "${two[@]}" python "$BATS_TEST_DIRNAME/accelerated.py"
  [ "$(grep -c 'rank 0 of 1: agrees' <<<"$output")" = 2 ]
  run ! agree 2
}
