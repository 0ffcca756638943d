# SPDX-License-Identifier: BSD-3-Clause
"""Loads an exported model directory with transformers and scores the first document of a JSONL file."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

logging.disable_progress_bar()
directory, texts = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(directory)
model = AutoModelForCausalLM.from_pretrained(directory)
with open(texts, encoding="utf-8") as lines:
    text = json.loads(next(lines))["text"]
ids = tokenizer(text, return_tensors="pt").input_ids[:, :256]
with torch.no_grad():
    loss = model(input_ids=ids, labels=ids).loss.item()
parameters = sum(p.numel() for p in model.parameters())
print(f"{directory}: {type(model).__name__}, {parameters:,} parameters, {model.dtype}, loss {loss:.4f}")
