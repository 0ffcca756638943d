# SPDX-License-Identifier: BSD-3-Clause
"""Real text, a tokenizer made from it, and rows packed as the trainer promises to pack them."""
import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SOURCE = "/usr/share/common-licenses/GPL-2"  # on every Debian


def paragraphs() -> list[str]:
    with open(SOURCE) as file:
        return [" ".join(part.split()) for part in file.read().split("\n\n") if part.strip()]


def make_tokenizer(file: str, vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<s>", "</s>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(paragraphs(), trainer)
    tokenizer.save(file)
    return tokenizer


def write_jsonl(file: str, texts: list[str]) -> None:
    with open(file, "w") as out:
        for text in texts:
            print(json.dumps({"text": text}), file=out)


def pack(tokenizer: Tokenizer, texts: list[str], end_of_text: int, width: int):
    """Rows of (token, document): documents end to end, each closed by end_of_text; the last row is padded."""
    stream = []
    for document, text in enumerate(texts):
        stream += [(token, document) for token in tokenizer.encode(text).ids + [end_of_text]]
    rows = [stream[i:i + width] for i in range(0, len(stream), width)]
    rows[-1] = rows[-1] + [(0, -1)] * (width - len(rows[-1]))
    return rows


def texts_for(tokenizer: Tokenizer, rows: int, width: int, skip: int = 0) -> list[str]:
    """Paragraphs that fill the given number of rows, the last one not quite."""
    chosen, tokens = [], 0
    for text in paragraphs()[skip:]:
        length = len(tokenizer.encode(text).ids) + 1
        if tokens + length >= rows * width:
            length = rows * width - tokens - 5
            text = tokenizer.decode(tokenizer.encode(text).ids[:max(1, length - 1)])
        chosen.append(text)
        tokens += len(tokenizer.encode(text).ids) + 1
        if tokens > (rows - 1) * width:
            return chosen
    raise AssertionError("the text is too short")
