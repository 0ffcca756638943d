#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch's own ways to train.
load helper

@test "DistributedDataParallel" { trains ddp.py; }
@test "fully_shard" { trains fsdp2.py; }
@test "DeviceMesh of two dimensions" { trains device_mesh.py; }
