# SPDX-License-Identifier: BSD-3-Clause
"""Small random Llama models, with transformers as the reference for all that is compared."""
import os

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

# Every trait of a Llama that changes the arithmetic. The shapes are odd on purpose.
SHAPES = {
    "gqa-tied": dict(num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True),
    "mha-untied": dict(num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=False),
    "head-dim": dict(num_attention_heads=4, num_key_value_heads=2, head_dim=32, tie_word_embeddings=False),
    "llama3-rope": dict(
        num_attention_heads=6, num_key_value_heads=3, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0,
                             high_freq_factor=4.0, original_max_position_embeddings=64)),
}


def make_model(shape: str, directory: str, layers: int = 3, vocabulary: int = 307) -> LlamaForCausalLM:
    """Writes the model to directory and returns it in fp32."""
    torch.manual_seed(sum(shape.encode()))
    options = dict(vocab_size=vocabulary, hidden_size=96, intermediate_size=160, num_hidden_layers=layers,
                   max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
                   attn_implementation="eager")
    model = LlamaForCausalLM(LlamaConfig(**{**options, **SHAPES[shape]}))
    with torch.no_grad():  # away from the initial values, which hide mistakes: norms of one, tiny logits
        for name, parameter in model.named_parameters():
            scale = 0.3 if "norm" in name else 0.08
            parameter.add_(torch.randn_like(parameter) * scale)
    os.makedirs(directory, exist_ok=True)
    model.config.save_pretrained(directory)
    model.generation_config.save_pretrained(directory)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    save_file(state, os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})
    return model.eval()


def documents_of(row):
    """The documents of a packed row of (token, document) pairs, each a list of tokens; no padding."""
    documents = {}
    for token, document in row:
        if document >= 0:
            documents.setdefault(document, []).append(token)
    return list(documents.values())


def reference_loss(model, rows):
    """Summed cross entropy and number of labels: every document of every row run on its own."""
    total, count = 0.0, 0
    for row in rows:
        for tokens in documents_of(row):
            if len(tokens) < 2:
                continue
            ids = torch.tensor([tokens])
            logits = model(input_ids=ids).logits[0, :-1].float()
            total = total + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
            count += len(tokens) - 1
    return total, count
