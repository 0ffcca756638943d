# SPDX-License-Identifier: BSD-3-Clause
"""TRL: supervised fine-tuning, then DPO on what came of it."""
import copy
import os

import torch
from datasets import Dataset
from torch.nn.functional import logsigmoid
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

import problem
from agree import agree

world = int(os.environ["WORLD_SIZE"])
settings = dict(
    use_cpu=True, bf16=False, per_device_train_batch_size=problem.ROWS // world, num_train_epochs=problem.STEPS,
    learning_rate=problem.RATE, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0, logging_steps=1,
    save_strategy="no", report_to="none", disable_tqdm=True)
tokenizer = problem.tokenizer()
sentences = problem.sentences()
# "one plus two is" " three", and not " nine".
prompts, answers = zip(*(s.rsplit(" ", 1) for s in sentences))
wrong = answers[1:] + answers[:1]


def last_loss(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1]


sft = SFTTrainer(model=problem.language_model(), args=SFTConfig(output_dir="sft", **settings),
                 train_dataset=Dataset.from_dict({"text": sentences}), processing_class=tokenizer)
sft.train()
pairs = {"prompt": prompts, "chosen": [" " + a for a in answers], "rejected": [" " + a for a in wrong]}
dpo = DPOTrainer(model=sft.model, ref_model=copy.deepcopy(sft.model),
                 args=DPOConfig(output_dir="dpo", beta=0.5, **settings), train_dataset=Dataset.from_dict(pairs), processing_class=tokenizer)
dpo.train()

# The same by plain loops.
model = problem.language_model()
ids = tokenizer([s + " <eos>" for s in sentences])["input_ids"]
sft_alone = problem.alone_on_tokens(model, ids)
reference = copy.deepcopy(model)


def log_probability(model, answers):
    """Of each answer and the end after it."""
    ids = torch.tensor(tokenizer([f"{p} {a} <eos>" for p, a in zip(prompts, answers)])["input_ids"])
    of_words = model(input_ids=ids).logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return of_words[:, -2:].sum(-1)


def preference(model):
    return log_probability(model, answers) - log_probability(model, wrong)


before = preference(reference).detach()
dpo_alone = problem.train(model, lambda model: -logsigmoid(0.5 * (preference(model) - before)).mean())
agree(dpo.args.process_index, dpo.args.world_size,
      {"loss of SFT": last_loss(sft), **problem.numbers(dpo.model.parameters(), last_loss(dpo))},
      {"loss of SFT": sft_alone["loss"], **dpo_alone})
