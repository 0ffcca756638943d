#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Hugging Face's trainers.
load helper

@test "Accelerate" { trains accelerated.py; }
@test "Trainer, then PEFT's LoRA" { trains trainer.py; }
@test "TRL: supervised fine-tuning, then DPO" { trains trl_trainers.py; }
@test "Datasets split by node" { trains split_by_node.py; }
