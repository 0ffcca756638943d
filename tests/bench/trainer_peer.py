# SPDX-License-Identifier: BSD-3-Clause
"""The peer of the trainer's benchmark: transformers' Llama under PyTorch FSDP2 or DDP on Gloo, as a careful user would
write it. FSDP2: a group for each block and one for the rest, parameters built on the meta device and read tensor by
tensor, each rank keeping its shard; bf16 is a MixedPrecisionPolicy (fp32 master, fp32 reduction). DDP: gradients as views
of the buckets; bf16 is autocast. SDPA attention, no cache of keys, fused AdamW, clipping, one thread, glibc's allocator.

usage: RANK=.. WORLD_SIZE=.. MASTER_ADDR=.. MASTER_PORT=.. trainer_peer.py MODEL fsdp|ddp fp32|bf16 STEPS LEARNING_RATE"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


def status_mib(name):
    return int(pathlib.Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) / 1024


def sharded(directory, precision, mesh):
    config = LlamaConfig.from_pretrained(directory)
    with torch.device("meta"):
        model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if precision == "bf16" \
        else MixedPrecisionPolicy()
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cpu")
    model.model.rotary_emb = LlamaRotaryEmbedding(config)
    model.tie_weights()
    with safe_open(f"{directory}/model.safetensors", "pt") as file, torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = file.get_tensor(name).float()
            parameter.copy_(distribute_tensor(whole, mesh, parameter.placements, src_data_rank=None))
    return model


def replicated(directory):
    model = LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="sdpa")
    return DistributedDataParallel(model, gradient_as_bucket_view=True)


def main(directory, strategy, precision, steps, rate):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    at_start = status_mib("VmRSS")
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    model = sharded(directory, precision, mesh) if strategy == "fsdp" else replicated(directory)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(rate), weight_decay=0.0, fused=True)
    rows = json.loads(pathlib.Path(directory, "rows.json").read_text())
    mine = torch.tensor(rows[rank * len(rows) // world:(rank + 1) * len(rows) // world])
    losses = []
    for step in range(int(steps)):
        with torch.autocast("cpu", torch.bfloat16, enabled=strategy == "ddp" and precision == "bf16"):
            loss = model(input_ids=mine, labels=mine, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
        if rank == 0:
            print(f"step {step + 1}/{steps}", flush=True)
    growth = torch.tensor([status_mib("VmHWM"), status_mib("VmHWM") - at_start])
    dist.all_reduce(growth, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"peak_memory_mib={growth[0]}\nmemory_growth_mib={growth[1]}", flush=True)
        print("losses=" + json.dumps(losses), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
