#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Hugging Face's trainers.
load helper

@test "Accelerate" { trains accelerated.py; }
@test "Trainer" { trains trainer.py; }
@test "Trainer on PEFT's LoRA" { trains trainer.py lora; }
@test "TRL: supervised fine-tuning, then DPO" { trains trl_trainers.py; }
