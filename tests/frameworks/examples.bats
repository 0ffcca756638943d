#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The job scripts of etc/examples, as a user would hand them in, but for their size.
load helper

setup_file() {
  start_cluster examples --nodes 2 --gpus 2
  examples=$(realpath "$BATS_TEST_DIRNAME/../../etc/examples")
  export examples
}

small=(--nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --cpus-per-task=1)
patient=(RAY_gcs_rpc_server_connect_timeout_s=200 RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=200) # on a busy machine
one=("${small[@]}" --ntasks-per-node=1)

# submit EXAMPLE OPTION... -- ARGUMENT...: runs it as a job; its output in $output.
submit() {
  local example=$examples/$1.sbatch options=()
  shift
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  as_user "${patient[@]}" sbatch --quiet --wait --output=example.out "${options[@]}" "$example" "$@" || { user cat example.out; return 1; }
  run -0 user cat example.out
}

@test "each has at most 15 lines, and sbatch takes its options" {
  local file
  for file in "$examples"/*; do
    [ "$(wc -l <"$file")" -le 15 ]
    [ "$(head -n1 "$file")" = '#!/bin/bash' ]
    bash -n "$file"
    [[ $file == *.sh ]] || grep -q '^#SBATCH ' "$file"
    [[ $file == *.sh ]] || user sbatch --test-only "${small[@]}" "$file"
  done
}

@test "fsdp: a PyTorch program" {
  submit fsdp "${small[@]}" -- "$BATS_TEST_DIRNAME/fsdp2.py"
  agree 4
}

@test "torchrun before and after" {
  submit torchrun-before "${one[@]}" -- "$BATS_TEST_DIRNAME/ddp.py"
  agree 4
  submit torchrun-after "${small[@]}" -- "$BATS_TEST_DIRNAME/ddp.py"
  agree 4
}

@test "notebook: a terminal on the first of its nodes, and ranks on all of them from there" {
  # shellcheck disable=SC2016 # for the shell in the job
  run -0 as_user script -qec "NODES=2 GPUS=2 CPUS=2 bash $examples/notebook.sh sh -c 'test -t 0 && hostname && srun --overlap -N2 -n4 \
    --dist-train sh -c \"echo rank \\\$RANK of \\\$WORLD_SIZE at \\\$MASTER_ADDR\"'" /dev/null
  output=$(tr -d '\r' <<<"$output")
  echo "$output"
  grep -q 'node01$' <<<"$output" # the terminal may echo something before it
  [ "$(grep -o 'rank . of 4 at 10.77.0.1$' <<<"$output" | sort -u | wc -l)" = 4 ]
}

@test "sweep: every trial names its parameters and its result" {
  local work
  work=$("$cluster" home)
  "$python" "$BATS_TEST_DIRNAME/../slurm/tiny_model.py" "$DIST_TRAIN_BUILD/models/smollm2-135m" "$work/tiny"
  head -n 40 "$DIST_TRAIN_BUILD/data/train.jsonl" >"$work/train.jsonl"
  head -n 8 "$DIST_TRAIN_BUILD/data/valid.jsonl" >"$work/valid.jsonl"
  chmod -R a+rX "$work"
  as_user sbatch --quiet --wait "$examples/sweep.sbatch" "$work/tiny" "$work/train.jsonl" "$work/valid.jsonl" sweep \
    --block_size=64 --max_steps=1
  run -0 user sh -c "cat sweep-*.out"
  [ "$(grep '^trial' <<<"$output" | cut -d: -f2 | sort -u | wc -l)" = 6 ]
  run -0 user sh -c "grep -H '^eval_loss=[0-9]' sweep-*.out | sort -t= -g -k2"
  [ "$(grep -c '^sweep-[0-9]*_[0-5].out:eval_loss=[0-9.]*$' <<<"$output")" = 6 ]
}

@test "jax: a process a node" {
  submit jax "${one[@]}" -- "$BATS_TEST_DIRNAME/jax_mesh.py"
  agree 2
}

@test "deepspeed: without its launcher" {
  submit deepspeed "${small[@]}" -- "$BATS_TEST_DIRNAME/deepspeed_zero.py"
  agree 4
}

@test "ray: one cluster over the nodes, for its program's time" {
  user sh -c 'cat >program.py' <<'END'
import ray

ray.init()
print("nodes", len(ray.nodes()))
END
  submit ray "${one[@]}" -- program.py
  echo "$output"
  grep -qx 'nodes 2' <<<"$output"
}
