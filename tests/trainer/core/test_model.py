# SPDX-License-Identifier: BSD-3-Clause
"""Logits, loss and gradients of one packed batch against transformers.

usage: test_model.py PROBE SHAPE
"""
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

from models import SHAPES, documents_of, make_model, reference_loss


def packed_rows(vocabulary: int, longest: int):
    """Two rows: documents of many lengths, one of a single token, padding at the end."""
    random.seed(5)
    rows, document = [], 0
    for lengths in ([40, 1, 2, 53], [longest, 17]):
        row = []
        for length in lengths:
            row += [(random.randrange(vocabulary), document) for _ in range(length)]
            document += 1
        rows.append(row)
    width = max(96, longest + 32)
    return [row + [(0, -1)] * (width - len(row)) for row in rows]


def main(probe: str, shape: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(shape, folder)
        rows = packed_rows(model.config.vocab_size, 700 if shape.endswith("long") else 64)
        with open(f"{folder}/rows", "w") as file:
            for row in rows:
                print(*(f"{token}:{document}" for token, document in row), file=file)
        subprocess.run([probe, folder, f"{folder}/rows", f"{folder}/out.safetensors", "fp32"], check=True)
        ours = load_file(f"{folder}/out.safetensors")

        expected = torch.cat([model(input_ids=torch.tensor([tokens])).logits[0]
                              for row in rows for tokens in documents_of(row)]).detach()
        real = torch.tensor([document >= 0 for row in rows for _, document in row])
        worst = (ours["logits"][real] - expected).abs().max() / expected.abs().max()
        print(f"{shape}: logits differ by {worst:.2e} of the largest")
        assert worst <= 1e-5, worst

        total, count = reference_loss(model, rows)
        (total / count).backward()
        for name in ("loss", "eval_loss"):
            difference = abs(ours[name].item() / (total / count).item() - 1)
            print(f"{shape}: {name} differs by {difference:.2e}")
            assert difference <= 1e-6, (name, difference)

        worst = 0.0
        for name, parameter in model.named_parameters():
            difference = ((ours[name] - parameter.grad).norm() / parameter.grad.norm()).item()
            worst = max(worst, difference)
            assert difference <= 1e-5, (name, difference)
        print(f"{shape}: gradients differ by at most {worst:.2e} (relative L2)")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in SHAPES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
