# SPDX-License-Identifier: BSD-3-Clause
"""Files that are none as input and output, and exports that cannot work: told before the training.

usage: test_files.py TRAINER
"""
import os
import subprocess
import sys
import tempfile

from models import make_model
from text import make_tokenizer, paragraphs, write_jsonl


def run(trainer, *arguments, **options):
    words = [trainer, *arguments] + [f"--{name}={value}" for name, value in options.items()]
    return subprocess.run(words, text=True, capture_output=True, timeout=60,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))


def check_refused(ended, text):
    assert ended.returncode == 1 and text in ended.stderr, (text, ended)
    assert "step 1/" not in ended.stdout, ended.stdout
    print(ended.stderr, end="")


def check_configuration(trainer, folder):
    os.mkfifo(f"{folder}/fifo")
    for file in (f"{folder}/fifo", "/dev/zero", folder):
        check_refused(run(trainer, file), f"{file}: is ")
    with open(f"{folder}/large.json", "wb") as file:
        file.truncate(1 << 30)
    check_refused(run(trainer, f"{folder}/large.json"), "has 1073741824 bytes, more than")


def check_output(trainer, folder, options):
    def refused(name, text):
        check_refused(run(trainer, **{**options, "output_dir": f"{folder}/{name}"}), text)

    for name in ("metrics", "file", "itself", "taken/hf/model.safetensors"):
        os.makedirs(f"{folder}/{name}")
    os.mkfifo(f"{folder}/metrics/metrics.jsonl")
    refused("metrics", "metrics.jsonl: it is not a regular file")
    open(f"{folder}/file/hf", "w").close()
    refused("file", f"cannot write {folder}/file/hf")
    os.symlink(options["model_name_or_path"], f"{folder}/itself/hf")
    refused("itself", "overwrite the model it came from")
    refused("taken", "hf/model.safetensors: something that is not a regular file")


def check_companions(trainer, model, options):
    """What cannot be copied beside the weights is a warning."""
    os.mkdir(f"{model}/vocab.json")
    os.mkfifo(f"{model}/chat_template.jinja")
    ended = run(trainer, **options)
    assert ended.returncode == 0 and ended.stderr.count("dist-trainer: warning: cannot copy") == 2, ended
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert os.path.getsize(f"{options['output_dir']}/hf/{name}") > 0, name
    print(ended.stderr, end="")


def check_model(trainer, model, options):
    os.rename(f"{model}/config.json", f"{model}/config")
    os.mkfifo(f"{model}/config.json")
    check_refused(run(trainer, **options), "config.json: is not a regular file")


def main(trainer: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = make_model("gqa-tied", f"{folder}/model")
        make_tokenizer(f"{folder}/model/tokenizer.json", model.config.vocab_size)
        write_jsonl(f"{folder}/train.jsonl", paragraphs())
        options = dict(model_name_or_path=f"{folder}/model", train_file=f"{folder}/train.jsonl",
                       output_dir=f"{folder}/out", block_size=64, max_steps=1)
        check_configuration(trainer, folder)
        check_output(trainer, folder, options)
        check_companions(trainer, f"{folder}/model", options)
        check_model(trainer, f"{folder}/model", options)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
