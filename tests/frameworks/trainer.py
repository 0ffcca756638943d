# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face Transformers' Trainer, then PEFT's LoRA on what came of it."""
import os

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import Trainer, TrainingArguments

import problem
from agree import agree

world = int(os.environ["WORLD_SIZE"])
ids = problem.tokenizer()(problem.sentences())["input_ids"]


def fit(model, folder):
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=folder, use_cpu=True, per_device_train_batch_size=len(ids) // world,
            num_train_epochs=problem.STEPS, learning_rate=problem.RATE, lr_scheduler_type="constant", optim="sgd",
            max_grad_norm=0, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True),
        train_dataset=Dataset.from_dict({"input_ids": ids, "labels": ids}))
    trainer.train()
    return trainer


def last_loss(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1]


def adapted(model):
    torch.manual_seed(3)
    return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"]))


full = fit(problem.language_model(), "trainer")
lora = fit(adapted(full.model), "lora")

# The same by plain loops.
model = problem.language_model()
full_alone = problem.alone_on_tokens(model, ids)
lora_alone = problem.alone_on_tokens(adapted(model), ids)
agree(lora.args.process_index, lora.args.world_size,
      {"loss of Trainer": last_loss(full), **problem.numbers(lora.model.parameters(), last_loss(lora))},
      {"loss of Trainer": full_alone["loss"], **lora_alone})
