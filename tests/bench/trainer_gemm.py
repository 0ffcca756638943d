# SPDX-License-Identifier: BSD-3-Clause
"""How fast this machine multiplies matrices with one thread of torch, in GFLOP/s: a square of 1024, and the products of a
training step weighted as the model has them. Prints one JSON object.

usage: trainer_gemm.py MODEL TOKENS fp32|bf16"""
import json
import pathlib
import sys
import time

import torch


def seconds(rows, inner, columns, dtype):
    """Of x @ w.T, the gradient of x and that of w, the best of a few each."""
    x, w = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
    y = torch.randn(rows, columns).to(dtype)
    total = 0.0
    for multiply in (lambda: x @ w.t(), lambda: y @ w, lambda: y.t() @ x):
        best = float("inf")
        for _ in range(5):
            begin = time.process_time()  # of one thread: the others of a busy machine do not count
            multiply()
            best = min(best, time.process_time() - begin)
        total += best
    return total


def main(directory, tokens, precision):
    torch.set_num_threads(1)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    model = json.loads(pathlib.Path(directory, "config.json").read_text())
    hidden, inner, heads = model["hidden_size"], model["intermediate_size"], model["num_attention_heads"]
    dim = model.get("head_dim") or hidden // heads
    layers, keys = model["num_hidden_layers"], model["num_key_value_heads"] * dim
    products = [(hidden, heads * dim + 2 * keys, layers), (heads * dim, hidden, layers), (hidden, 2 * inner, layers),
                (inner, hidden, layers), (hidden, model["vocab_size"], 1)]
    rows = int(tokens)
    spent = sum(count * seconds(rows, k, n, dtype) for k, n, count in products)
    flop = sum(count * 6 * rows * k * n for k, n, count in products)
    print(json.dumps({"square": 3 * 2 * 1024**3 / seconds(1024, 1024, 1024, dtype) / 1e9, "products": flop / spent / 1e9,
                      "flop_per_token": flop / rows}))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
