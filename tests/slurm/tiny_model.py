# SPDX-License-Identifier: BSD-3-Clause
"""Writes a small Llama with random weights and the given model's tokenizer: tiny_model.py MODEL OUT."""
import shutil
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

source, out = sys.argv[1:]
torch.manual_seed(1)
vocabulary = LlamaConfig.from_pretrained(source).vocab_size
config = LlamaConfig(vocab_size=vocabulary, hidden_size=64, intermediate_size=128, num_hidden_layers=3,
                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                     tie_word_embeddings=True, eos_token_id=0, bos_token_id=0)
LlamaForCausalLM(config).save_pretrained(out)
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(f"{source}/{name}", out)
