# SPDX-License-Identifier: BSD-3-Clause
"""torchtitan: its debug model and Trainer, sharded over all ranks, on CPUs."""
import os
import tempfile
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

# torchtitan knows accelerators only. torch does on CPUs what it asks of them, but for their name and their memory, the
# graphs and compiled attention, and a barrier that names a device.
torch._utils._get_available_device_type = lambda: "cpu"
for name, answer in {"get_device_name": "CPU", "get_device_properties": SimpleNamespace(total_memory=1 << 30),
                     "memory_stats": {}, "reset_peak_memory_stats": None, "empty_cache": None}.items():
    setattr(torch.cpu, name, lambda *_, answer=answer: answer)

from torchtitan.distributed import utils
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_debugmodel

import problem
from agree import agree

utils.set_pg_timeouts = lambda **_: None
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def configure(folder):
    problem.tokenizer().save_pretrained(folder)
    os.mkdir(f"{folder}/texts")
    with open(f"{folder}/texts/texts.txt", "w") as text:
        text.write("\n".join(problem.sentences()))
    config = llama3_debugmodel()
    config.hf_assets_path = config.dump_folder = folder
    config.dataloader.dataset_path = f"{folder}/texts"
    config.lr_scheduler.warmup_steps, config.lr_scheduler.decay_ratio = 0, 0.0
    config.training.local_batch_size, config.training.seq_len = problem.ROWS // world, 8
    config.training.steps, config.training.mixed_precision_param = problem.STEPS, "float32"
    config.training.disable_cuda_graphs = True
    config.checkpoint.enable = config.validator.enable = False
    config.activation_checkpoint = None
    config.parallelism.spmd_backend = "partial_dtensor"
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    return config


def values(parameters):
    """Some of the 7 million."""
    return {"parameters": torch.cat([p.detach().flatten() for p in parameters])[::997].tolist()}


def train_alone(trainer, start, steps):
    """A plain loop over the batches of all ranks, from the same start."""
    model = trainer.model_config.build()
    model.init_weights()
    model.load_state_dict(start, strict=False)
    optimizer = torch.optim.AdamW(model.parameters(), **trainer.config.optimizer.param_groups[0].optimizer_kwargs)
    for batches in steps:
        inputs, positions, labels = (torch.cat(kind) for kind in zip(*batches))
        scores = model(inputs, positions=positions)
        torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), trainer.config.training.max_norm)
        optimizer.step()
        optimizer.zero_grad()
    return values(model.parameters())


with tempfile.TemporaryDirectory() as folder:
    os.environ["HF_DATASETS_CACHE"] = folder
    config = configure(folder)
    trainer = config.build()
    model = trainer.model_parts[0]
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # Gloo has no other
    start = {name: parameter.full_tensor().clone() for name, parameter in model.named_parameters()}
    seen = []
    forward_backward_step = trainer.forward_backward_step

    def watched(*, input_dict, labels, **others):
        everyone = [None] * world
        dist.all_gather_object(everyone, (input_dict["input"], input_dict["positions"], labels))
        seen.append(everyone)
        return forward_backward_step(input_dict=input_dict, labels=labels, **others)

    trainer.forward_backward_step = watched
    trainer.train()
    together = values([parameter.full_tensor() for parameter in model.parameters()])
    agree(dist.get_rank(), dist.get_world_size(), together, train_alone(trainer, start, seen))
    trainer.close()
    dist.destroy_process_group()
