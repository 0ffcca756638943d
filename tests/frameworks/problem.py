# SPDX-License-Identifier: BSD-3-Clause
"""What the programs on torch train, and what one process makes of it: a plain loop over the whole batch.

The batch of every step is all ROWS, which any world of 2, 3 or 4 deals out evenly, so that the mean of the ranks' means
is the mean; which rank gets which row does not matter. Every start is the same (seeds). The optimizer is SGD, since
Adam's steps would hide a gradient of the wrong size."""
import torch

ROWS = 12
STEPS = 5
RATE = 0.1


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4))


def rows():
    """Inputs and targets, of ROWS rows each."""
    random = torch.Generator().manual_seed(2)
    return torch.randn(ROWS, 8, generator=random), torch.randn(ROWS, 4, generator=random)


def language_model():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, bos_token_id=None, eos_token_id=1))


WORDS = ["<pad>", "<eos>", *"zero one two three four five six seven eight nine plus is".split()]


def sentences():
    """ROWS of the same number of words: "one plus two is three"."""
    number = WORDS[2:12]
    return [f"{number[i % 5]} plus {number[(2 * i) % 5]} is {number[i % 5 + (2 * i) % 5]}" for i in range(ROWS)]


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def numbers(parameters, loss):
    """What is compared: the last step's loss, and all parameters after it."""
    flat = torch.cat([p.detach().reshape(-1).float() for p in parameters])
    return {"loss": torch.as_tensor(loss).item(), "parameters": flat.tolist()}


def train(model, loss_of, optimizer=torch.optim.SGD, steps=STEPS, rate=RATE):
    """The plain loop; loss_of(model) is the mean over the whole batch."""
    optimizer = optimizer(model.parameters(), lr=rate)
    for _ in range(steps):
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return numbers(model.parameters(), loss)


def alone(**how):
    """network() on rows(), with the squared error."""
    inputs, targets = rows()
    return train(network(), lambda model: torch.nn.functional.mse_loss(model(inputs), targets), **how)


def alone_on_tokens(model, ids, **how):
    """A language model on rows of tokens, each of which says the next one."""
    ids = torch.tensor(ids)
    return train(model, lambda model: torch.nn.functional.cross_entropy(
        model(input_ids=ids).logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()), **how)
