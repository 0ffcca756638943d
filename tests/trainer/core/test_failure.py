# SPDX-License-Identifier: BSD-3-Clause
"""What is said, and how fast all ranks are gone, when something is wrong.

usage: test_failure.py TRAINER
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from models import make_model
from ranks import start_ranks
from text import make_tokenizer, paragraphs, write_jsonl


def finish(ranks, seconds: float = 10) -> str:
    """All output of the ranks. Once one has ended all must be gone in time, none with exit code 0."""
    with ThreadPoolExecutor(len(ranks)) as pool:  # their pipes are emptied side by side
        outputs = [pool.submit(rank.communicate, timeout=100) for rank in ranks]
        wait(outputs, return_when=FIRST_COMPLETED)
        first = time.monotonic()
        wait(outputs)
    assert time.monotonic() - first < seconds
    output = "".join(each.result()[1] for each in outputs)
    assert all(rank.returncode != 0 for rank in ranks), [rank.returncode for rank in ranks]
    return output


def check_refused(trainer, options, change, *texts, **odd):
    """odd: what only the last rank is given."""
    ranks = start_ranks(trainer, 4, {**options, **change}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **odd)
    errors = finish(ranks)
    assert errors.count("dist-trainer: error:") == 1, errors
    assert all(text in errors for text in texts), errors
    print(errors, end="")


def check_killed(trainer, options):
    ranks = start_ranks(trainer, 4, {**options, "max_steps": 1000000, "logging_steps": 1},
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in ranks[0].stdout:
        if line.startswith("step 3/"):
            break
    ranks[2].send_signal(signal.SIGKILL)
    ranks[1].send_signal(signal.SIGTERM)  # as Slurm does to the others, at the same moment
    errors = finish(ranks)
    found = re.findall(r"^rank 2 \(.*, local 2\) left at step \d+; the others stop$", errors, re.M)
    assert len(found) == 1 and errors.count("\n") == 1, errors
    print(errors, end="")


def main(trainer: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = make_model("gqa-tied", f"{folder}/model")
        make_tokenizer(f"{folder}/model/tokenizer.json", model.config.vocab_size)
        write_jsonl(f"{folder}/train.jsonl", paragraphs())
        write_jsonl(f"{folder}/short.jsonl", ["Too little to share."])
        options = dict(model_name_or_path=f"{folder}/model", train_file=f"{folder}/train.jsonl",
                       output_dir=f"{folder}/out", block_size=64, max_steps=2)
        check_killed(trainer, options)
        check_refused(trainer, options, {}, "rank 3 (", "a configuration", odd_rank=dict(seed=7))
        os.makedirs(f"{folder}/elsewhere")
        write_jsonl(f"{folder}/elsewhere/train.jsonl", paragraphs()[:30])
        os.chdir(folder)
        check_refused(trainer, options, dict(train_file="train.jsonl"), "rank 3 (", "training rows",
                      folder=f"{folder}/elsewhere")
        check_refused(trainer, options, dict(ddp_backend="gloo"), "rank 3 (", "cannot connect", "nosuch",
                      environment=dict(GLOO_SOCKET_IFNAME="nosuch"))
        check_refused(trainer, options, dict(train_file=f"{folder}/short.jsonl"), "short.jsonl", "1 row ", "4 ranks")
        check_refused(trainer, options, dict(block_size=512), "block_size 512", "256")
        check_refused(trainer, options, dict(output_dir="/proc/none"), "/proc/none", "(rank 0 of 4")
        os.truncate(f"{folder}/model/model.safetensors", 5000)
        check_refused(trainer, options, {}, "model.safetensors")
        os.remove(f"{folder}/model/tokenizer.json")
        os.rename(f"{folder}/model/config.json", f"{folder}/model/config")
        check_refused(trainer, options, {}, f"{folder}/model/config.json")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
