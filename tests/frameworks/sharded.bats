#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Frameworks that split a model over ranks.
load helper

@test "DeepSpeed: ZeRO 1, 2 and 3" { trains deepspeed deepspeed_zero.py; }
@test "Megatron-core: tensor parallel groups of two; three tasks are refused" {
  run -0 as_user "${even[@]}" --dist-train=megatron python "$BATS_TEST_DIRNAME/megatron_tp2.py" \
    --tensor-model-parallel-size 2
  agree 4
  refuses "--tensor-model-parallel-size 2" "${uneven[@]}" --dist-train=megatron \
    python "$BATS_TEST_DIRNAME/megatron_tp2.py" --tensor-model-parallel-size 2
}
