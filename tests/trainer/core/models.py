# SPDX-License-Identifier: BSD-3-Clause
"""Small random models of every family, with transformers as the reference for all that is compared."""
import os

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

# Every trait of a family that changes the arithmetic. The shapes are odd on purpose.
SHAPES = {
    "gqa-tied": dict(num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True),
    "mha-untied": dict(num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=False),
    "head-dim": dict(num_attention_heads=4, num_key_value_heads=2, head_dim=32, tie_word_embeddings=False),
    "llama3-rope": dict(
        num_attention_heads=6, num_key_value_heads=3, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0,
                             high_freq_factor=4.0, original_max_position_embeddings=64)),
    "linear-rope": dict(num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                        rope_parameters=dict(rope_type="linear", rope_theta=5000.0, factor=3.0)),
    "biases": dict(num_attention_heads=4, num_key_value_heads=2, attention_bias=True, mlp_bias=True),
    "mistral": dict(model_type="mistral", num_attention_heads=6, num_key_value_heads=2, sliding_window=None),
    "mistral-window": dict(model_type="mistral", num_attention_heads=4, num_key_value_heads=2, head_dim=20,
                           sliding_window=13),
    "mistral-long": dict(model_type="mistral", num_attention_heads=4, num_key_value_heads=2, sliding_window=300),
    "qwen2": dict(model_type="qwen2", num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2-window": dict(model_type="qwen2", num_attention_heads=4, num_key_value_heads=4, use_sliding_window=True,
                         sliding_window=50, max_window_layers=1),
    "qwen3": dict(model_type="qwen3", num_attention_heads=6, num_key_value_heads=2, head_dim=24,
                  tie_word_embeddings=True),
    "qwen3-bias": dict(model_type="qwen3", num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                       attention_bias=True, tie_word_embeddings=False),
}


def make_model(shape: str, directory: str, layers: int = 3, vocabulary: int = 307) -> PreTrainedModel:
    """Writes the model to directory and returns it in fp32."""
    torch.manual_seed(sum(shape.encode()))
    options = dict(model_type="llama", vocab_size=vocabulary, hidden_size=96, intermediate_size=160,
                   num_hidden_layers=layers, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=0,
                   eos_token_id=1)
    config = AutoConfig.for_model(**{**options, **SHAPES[shape]})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
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
