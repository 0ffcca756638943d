#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Frameworks that bring processes together, or start them, in a way of their own.
load helper

@test "JAX: initialize() without arguments" { trains jax jax_mesh.py; }

@test "submitit, which has equally many tasks on each node only" {
  run -0 as_user PYTHONPATH="$BATS_TEST_DIRNAME" python "$BATS_TEST_DIRNAME/submitit_executor.py" submitted --dist-train
  agree 4
}
