# SPDX-License-Identifier: BSD-3-Clause
"""Writes what both sides of the trainer's benchmark start from: a randomly initialised Llama, its tokenizer, and rows of
text that are one document each, so that the peer needs no mask. Every step takes all rows: their order does not matter.

usage: trainer_model.py SHAPE DIRECTORY ROWS WIDTH"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {
    "32m": dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
                num_key_value_heads=4, vocab_size=8192, tie_word_embeddings=False),
    "small": dict(hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, vocab_size=1024, tie_word_embeddings=False),
}
TEXT = pathlib.Path("/usr/share/common-licenses")  # on every Debian


def paragraphs():
    names = ["GPL-2", "GPL-3", "LGPL-2.1", "Apache-2.0", "MPL-2.0"]
    return [" ".join(part.split()) for name in names for part in (TEXT / name).read_text().split("\n\n") if part.strip()]


def random_model(shape, directory):
    """Model and tokenizer written there."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(max_position_embeddings=2048, bos_token_id=0, eos_token_id=1, **SHAPES[shape]))
    model.config.save_pretrained(directory)
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, directory / "model.safetensors",
              metadata={"format": "pt"})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(paragraphs(), trainers.BpeTrainer(
        vocab_size=model.config.vocab_size, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.save(str(directory / "tokenizer.json"))


def fitting_texts(tokenizer, count, length):
    """Texts of exactly so many tokens."""
    ids, texts = tokenizer.encode(" ".join(paragraphs())).ids, []
    for begin in range(0, len(ids) - length, length // 2):
        text = tokenizer.decode(ids[begin:begin + length])
        if len(tokenizer.encode(text).ids) == length:
            texts.append(text)
        if len(texts) == count:
            return texts
    raise SystemExit("the text is too short")


def main(shape, directory, rows, width):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    if shape in SHAPES:
        random_model(shape, directory)
    else:  # a model on disk
        shutil.copytree(shape, directory, dirs_exist_ok=True)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    end = json.loads((directory / "config.json").read_text())["eos_token_id"]
    texts = fitting_texts(tokenizer, int(rows), int(width) - 1)
    with open(directory / "train.jsonl", "w") as file:
        for text in texts:
            print(json.dumps({"text": text}), file=file)
    (directory / "rows.json").write_text(json.dumps([tokenizer.encode(text).ids + [end] for text in texts]))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
