# SPDX-License-Identifier: BSD-3-Clause
"""Twenty optimizer steps against transformers with torch.optim.AdamW, at several world sizes.

Each step takes every row once, so that the order of rows, which is ours, does not matter.

usage: test_train.py TRAINER PROBE SHAPE SCHEDULER
"""
import copy
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, get_scheduler

from models import make_model, reference_loss
from ranks import train
from text import make_tokenizer, pack, texts_for, write_jsonl

STEPS, WARMUP, ROWS, WIDTH, RATE, DECAY = 20, 3, 8, 64, 2e-3, 0.1


def reference(model, rows, scheduler_name, muon=False):
    """(loss, learning rate, gradient norm) of each step."""
    matrices = [p for name, p in model.named_parameters() if muon and p.dim() == 2 and ".layers." in name]
    others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    decaying, plain = [p for p in others if p.dim() > 1], [p for p in others if p.dim() == 1]
    optimizers = [torch.optim.AdamW([dict(params=decaying, weight_decay=DECAY), dict(params=plain, weight_decay=0.0)],
                                    lr=RATE)]
    if muon:
        optimizers.append(torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"))
    schedulers = [get_scheduler(scheduler_name, optimizer, WARMUP, STEPS) for optimizer in optimizers]
    steps = []
    for _ in range(STEPS):
        model.zero_grad()
        total, count = reference_loss(model, rows)
        loss = total / count
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.append((loss.item(), optimizers[0].param_groups[0]["lr"], norm.item()))
        for stepped in (*optimizers, *schedulers):
            stepped.step()
    return steps


def of_metrics(entries):
    return [(e["loss"], e["learning_rate"], e["grad_norm"]) for e in entries if "loss" in e]


def compare(what, ours, expected, first=1e-6, later=1e-4):
    """Losses to `first` in the first three steps, `later` afterwards; rates exactly; norms to a hundred and ten times
    that."""
    assert len(ours) == len(expected) == STEPS, (what, len(ours))
    early = late = 0.0
    for step, (mine, other) in enumerate(zip(ours, expected)):
        loss, norm = abs(mine[0] / other[0] - 1), abs(mine[2] / other[2] - 1)
        early, late = (max(early, loss), late) if step < 3 else (early, max(late, loss))
        assert loss <= (first if step < 3 else later), (what, step, mine, other)
        assert abs(mine[1] - other[1]) <= 1e-8 * RATE, (what, step, mine, other)
        assert norm <= (100 * first if step < 3 else 10 * later), (what, step, mine, other)
    print(f"{what}: losses differ by {early:.1e} in steps 1-3, {late:.1e} later")


def check_export(directory, probe, rows, trained, reported):
    """The export loads in transformers, with our logits, the reported loss and the reference's weights."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype="auto").eval()
    assert model.dtype == torch.float32, model.dtype
    assert sorted(load_file(f"{directory}/model.safetensors")) == sorted(
        name for name, _ in model.named_parameters()), "tensors missing or too many"
    with torch.no_grad():
        total, count = reference_loss(model, rows)
        assert abs(reported / (total / count).item() - 1) <= 1e-6, (reported, (total / count).item())
        tokens = [token for token, _ in rows[0]]
        logits = model(input_ids=torch.tensor([tokens])).logits[0]
        expected = trained(input_ids=torch.tensor([tokens])).logits[0]
    with open(f"{directory}/rows", "w") as file:
        print(*(f"{token}:0" for token in tokens), file=file)
    subprocess.run([probe, directory, f"{directory}/rows", f"{directory}/out.safetensors", "fp32"], check=True)
    ours = load_file(f"{directory}/out.safetensors")["logits"]
    assert (ours - logits).abs().max() <= 1e-5 * logits.abs().max()
    assert (logits - expected).abs().max() <= 1e-2 * expected.abs().max()
    print("export: loads in transformers with equal logits")


def main(trainer: str, probe: str, shape: str, scheduler: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(shape, f"{folder}/model")
        tokenizer = make_tokenizer(f"{folder}/model/tokenizer.json", model.config.vocab_size)
        texts = texts_for(tokenizer, ROWS, WIDTH)
        validation = texts_for(tokenizer, 5, WIDTH, skip=40)
        write_jsonl(f"{folder}/train.jsonl", texts)
        write_jsonl(f"{folder}/validation.jsonl", validation)
        rows = pack(tokenizer, texts, model.config.eos_token_id, WIDTH)
        held_out = pack(tokenizer, validation, model.config.eos_token_id, WIDTH)
        assert len(rows) == ROWS and rows[-1][-1] == (0, -1)
        with torch.no_grad():
            total, count = reference_loss(model, held_out)
        before = (total / count).item()
        start = copy.deepcopy(model.state_dict())
        expected = reference(model, rows, scheduler)

        def run(name, world, nodes=1, says="", **more):
            return train(trainer, world, dict(
                model_name_or_path=f"{folder}/model", train_file=f"{folder}/train.jsonl",
                validation_file=f"{folder}/validation.jsonl", output_dir=f"{folder}/{name}", block_size=WIDTH,
                max_steps=STEPS, learning_rate=RATE, weight_decay=DECAY, warmup_steps=WARMUP,
                lr_scheduler_type=scheduler, logging_steps=1, global_train_batch_size=ROWS, **more), nodes, says)

        alone = run("alone", 1)  # eight passes of one row
        compare("1 rank, 8 x 1 rows, against transformers", of_metrics(alone), expected)
        evaluations = [e["eval_loss"] for e in alone if "eval_loss" in e]
        assert abs(evaluations[0] / before - 1) <= 1e-6, (evaluations, before)
        check_export(f"{folder}/alone/hf", probe, held_out, model, evaluations[-1])
        for name, world, nodes, says, more in [
                ("1 rank, 1 x 8 rows", 1, 1, "alone", dict(per_device_train_batch_size=8)),
                ("4 ranks, fsdp", 4, 1, "fsdp over shared memory,", dict(per_device_eval_batch_size=2)),
                ("4 ranks, fsdp, Gloo", 4, 1, "fsdp over Gloo,", dict(ddp_backend="gloo")),
                ("4 ranks, fsdp, 2 nodes", 4, 2, "fsdp over Gloo,", dict(activation_checkpointing="selective")),
                ("4 ranks, hsdp, 2 nodes", 4, 2, "hsdp over shared memory and Gloo,", dict(strategy="hsdp")),
                ("2 ranks, hsdp, 2 nodes", 2, 2, "hsdp over Gloo,", dict(strategy="hsdp")),
                ("2 ranks, zero2", 2, 1, "zero2 over shared memory,", dict(strategy="zero2")),
                ("4 ranks, zero2, Gloo", 4, 1, "zero2 over Gloo,", dict(strategy="zero2", ddp_backend="gloo")),
                ("2 ranks, ddp, 4 passes a step", 2, 1, "ddp over shared memory,", dict(strategy="ddp")),
                ("4 ranks, ddp, 1 pass, Gloo", 4, 1, "ddp over Gloo,", dict(
                    strategy="ddp", ddp_backend="gloo", per_device_train_batch_size=2))]:
            entries = run(name.replace(" ", "-"), world, nodes, says, **more)
            compare(f"{name}, against 1 rank", of_metrics(entries), of_metrics(alone))
            others = [e["eval_loss"] for e in entries if "eval_loss" in e]
            assert all(abs(a / b - 1) <= 1e-5 for a, b in zip(others, evaluations)), (others, evaluations)
        for checkpointing in ("selective", "block"):  # the same arithmetic, twice
            again = of_metrics(run(checkpointing, 1, activation_checkpointing=checkpointing))
            assert again == of_metrics(alone), (checkpointing, again)
        model.load_state_dict(start)
        muon = reference(model, rows, scheduler, muon=True)
        assert abs(muon[-1][0] / expected[-1][0] - 1) > 0.02, (muon, expected)
        for world, more in [(1, dict(per_device_train_batch_size=8)), (2, {}), (2, dict(ddp_backend="gloo"))]:
            # Its iterations are in bf16: the last bit of a gradient can change an update by 4e-3.
            compare(f"Muon, {world} ranks {more}, against torch.optim.Muon",
                    of_metrics(run(f"muon-{world}-{len(more)}", world, optim="muon", **more)), muon, 1e-5, 1e-3)
        rounded = of_metrics(run("bf16", 2, bf16="true"))
        assert all(abs(a[0] / b[0] - 1) <= 0.02 for a, b in zip(rounded, expected)), (rounded, expected)
        exported = AutoModelForCausalLM.from_pretrained(f"{folder}/bf16/hf", dtype="auto")
        assert exported.dtype == torch.bfloat16, exported.dtype


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
