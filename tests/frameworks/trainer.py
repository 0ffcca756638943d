# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face Transformers' Trainer; with the argument `lora`, on a model of PEFT's."""
import os
import sys

from datasets import Dataset
from transformers import Trainer, TrainingArguments

import problem
from agree import agree


def model():
    plain = problem.language_model()
    if "lora" not in sys.argv:
        return plain
    from peft import LoraConfig, get_peft_model
    return get_peft_model(plain, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"]))


ids = problem.tokenizer()(problem.sentences())["input_ids"]
world = int(os.environ["WORLD_SIZE"])
trainer = Trainer(
    model=model(),
    args=TrainingArguments(
        output_dir="trainer", use_cpu=True, per_device_train_batch_size=len(ids) // world, num_train_epochs=problem.STEPS,
        learning_rate=problem.RATE, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0, logging_steps=1,
        save_strategy="no", report_to="none", disable_tqdm=True),
    train_dataset=Dataset.from_dict({"input_ids": ids, "labels": ids}))
trainer.train()
# The Trainer logs on the first rank; the mean of all ranks.
loss = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1]
agree(trainer.args.process_index, trainer.args.world_size, problem.numbers(trainer.model.parameters(), loss),
      problem.alone_on_tokens(model(), ids))
