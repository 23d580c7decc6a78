# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small transformers model with the lines of docs/users/pytorch.md, in a loop with accelerate and
in Trainer.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
library = pytest.importorskip("transformers", minversion="5.0")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

import fp8moe.torch  # noqa: E402
from fp8moe.torch import Linear  # noqa: E402

STEPS, TOKENS = 3, 32


def make_model():
    """Returns a model in FP8 with a linear layer, whose calls are cached after the second step."""
    fp8moe.torch.transformers.register(recipe="rowwise")
    config = library.Qwen3MoeConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, num_experts=4, num_experts_per_tok=2, head_dim=32,
    )  # fmt: skip
    torch.manual_seed(0)
    model = library.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, experts_implementation="fp8moe")
    fp8moe.torch.convert(model, filter=lambda module, name: name.endswith("q_proj"), least_rows=16)
    assert isinstance(model.model.layers[0].self_attn.q_proj, Linear)
    return model


def make_ids():
    return torch.randint(64, (STEPS, TOKENS), generator=torch.Generator().manual_seed(1))


def test_accelerate(ir):
    losses = {}
    for is_accelerated in (False, True):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        backward = torch.Tensor.backward
        if is_accelerated:
            accelerator = accelerate.Accelerator(mixed_precision="bf16", cpu=True)
            model, optimizer = accelerator.prepare(model, optimizer)
            backward = accelerator.backward
        found = losses[is_accelerated] = []
        for ids in make_ids():
            loss = model(input_ids=ids[None], labels=ids[None]).loss
            backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
    assert losses[True] == pytest.approx(losses[False], rel=0.02)


def test_trainer(ir, tmp_path):
    model = make_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    arguments = library.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=1, max_steps=STEPS, use_cpu=True, bf16=True, report_to=[], logging_steps=1, save_strategy="no",
        learning_rate=0.01,
    )  # fmt: skip
    trainer = library.Trainer(model=model, args=arguments, train_dataset=[{"input_ids": ids, "labels": ids} for ids in make_ids()])
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == STEPS and all(0 < loss < 10 for loss in losses)
    changed = [not torch.equal(new, old) for new, old in zip(model.parameters(), before)]
    assert sum(changed) > len(changed) / 2
