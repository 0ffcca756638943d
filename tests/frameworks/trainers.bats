#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Trainers on top of PyTorch.
load helper

@test "Lightning; uneven nodes are refused" {
  run -0 as_user "${even[@]}" --dist-train=lightning python "$BATS_TEST_DIRNAME/lightning_fit.py"
  agree 4
  refuses "mode lightning wants equally many tasks on each node, not 3 tasks on 2 nodes" \
    "${uneven[@]}" --dist-train=lightning python "$BATS_TEST_DIRNAME/lightning_fit.py"
}
@test "Ignite" { trains ignite_run.py; }
@test "Composer" { trains composer_fit.py; }
@test "torchtitan: its debug model" { trains torchtitan_debug.py; }
