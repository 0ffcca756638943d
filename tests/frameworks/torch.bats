#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch's own ways to train.
load helper

@test "DistributedDataParallel" { trains ddp.py; }
