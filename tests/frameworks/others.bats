#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # what is quoted is for a task's shell
# Frameworks that bring processes together, or start them, in a way of their own.
load helper

@test "JAX: initialize() without arguments" { trains jax jax_mesh.py; }

@test "submitit, which has equally many tasks on each node only" {
  run -0 as_user PYTHONPATH="$BATS_TEST_DIRNAME" python "$BATS_TEST_DIRNAME/submitit_executor.py" submitted --dist-train
  agree 4
}

# Its own limits on how long a busy machine may take to start what it consists of are short.
@test "Ray: symmetric-run, and Ray Train on it; several tasks a node are refused" {
  local patient=(RAY_gcs_rpc_server_connect_timeout_s=200 RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=200
    RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S=200 PYTHONPATH="$BATS_TEST_DIRNAME")
  run -0 as_user "${patient[@]}" srun -N2 --ntasks-per-node=1 --dist-train=ray sh -c 'exec ray symmetric-run \
    --address "$DIST_TRAIN_RAY_ADDRESS" --min-nodes "$DIST_TRAIN_RAY_NODES" --num-cpus "$DIST_TRAIN_RAY_CPUS" \
    --min-worker-port 0 --max-worker-port 0 --object-store-memory 100000000 -- python "$0"' \
    "$BATS_TEST_DIRNAME/ray_train.py"
  agree 2
  refuses "mode ray wants one task a node, not 3 tasks on 2 nodes" "${uneven[@]}" --dist-train=ray ray --version
}
