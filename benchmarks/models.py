#!/usr/bin/env python3
# ===- models.py - Models of transformers and torchtitan, converted ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times a decoder layer of Llama3 8B and of Qwen3-30B-A3B, from transformers and from torchtitan,
on one NVIDIA GPU. Forward and backward run in bf16, and converted by one line,
`fp8moe.torch.apply(model, plan)`. Then it trains small models of the same classes both ways and
compares losses.

    python3 benchmarks/models.py --prepare build/models            # where the compiler is, once
    FP8MOE_ARTIFACTS=build/models python3 benchmarks/models.py build/models --json build/models.json

Weights are random, and the vocabulary has 256 tokens. `matmuls` times only the attention's linear
layers and the feed-forward part (for experts with the router). `model` times everything.

Outputs and gradients are first compared with bf16 as a signal-to-noise ratio. Times are medians of
blocks of eager and of compiled calls in random order, host time included.

Losses are means of the last 20 steps on windows of this repository's documents, with f32 master
weights under autocast. All eligible matmuls are in FP8 there. --seeds prints the mean over seeds
and its standard error.

torchtitan (0.3.0) and transformers are skipped if they are not installed. --cpu-check runs
everything with small sizes on the CPU and times nothing.
"""

import argparse
import gc
import importlib
import itertools
import json
import pathlib
import random
import re
import statistics
import sys

import linear_layers

TOKENS, LENGTH, CALLS = 8192, 2048, 5
LEAST_DB = 14  # lower bound for outputs and gradients after several FP8 matmuls
VOCABULARY = 256
LLAMA = dict(width=4096, hidden=14336, heads=32, kv=8, head=128, layers=1)
QWEN = dict(width=2048, hidden=768, heads=32, kv=4, head=128, layers=1, experts=128, top=8)
SIZES = {
    "full": {"Llama3 8B": LLAMA, "Qwen3-30B-A3B": QWEN},
    "small": {
        "Llama3 8B": dict(width=1024, hidden=2816, heads=8, kv=2, head=128, layers=4),
        "Qwen3-30B-A3B": dict(width=1024, hidden=768, heads=8, kv=2, head=128, layers=4, experts=16, top=4),
    },
    "cpu": {  # few programs to compile
        "Llama3 8B": dict(width=64, hidden=64, heads=4, kv=4, head=16, layers=1),
        "Qwen3-30B-A3B": dict(width=64, hidden=32, heads=4, kv=4, head=16, layers=1, experts=4, top=2),
    },
}


# --- Models -------------------------------------------------------------------------


def make_transformers(size):
    import transformers

    about = dict(
        vocab_size=VOCABULARY, hidden_size=size["width"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
        num_key_value_heads=size["kv"], head_dim=size["head"], max_position_embeddings=LENGTH, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    if "experts" in size:
        config = transformers.Qwen3MoeConfig(
            num_experts=size["experts"], num_experts_per_tok=size["top"], moe_intermediate_size=size["hidden"], norm_topk_prob=True, **about
        )
        return transformers.Qwen3MoeForCausalLM._from_config(config, experts_implementation="grouped_mm", dtype=torch.float32)
    config = transformers.LlamaConfig(intermediate_size=size["hidden"], rope_theta=500000.0, **about)
    return transformers.LlamaForCausalLM._from_config(config, dtype=torch.float32)


def make_torchtitan(size):
    """Builds a model with torchtitan's own layers and with its attention that needs no document
    masks.
    """
    from torchtitan.models import llama3, qwen3
    from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear
    from torchtitan.models.common.attention import ScaledDotProductAttention

    width, is_moe = size["width"], "experts" in size
    about = dict(n_layers=size["layers"], dim=width, n_heads=size["heads"], n_kv_heads=size["kv"], attn_backend="varlen")
    if is_moe:
        about.update(head_dim=size["head"], moe_hidden_dim=size["hidden"], num_experts=size["experts"], top_k=size["top"])
        rope = CosSinRoPE.Config(dim=size["head"], max_seq_len=LENGTH, theta=1e6)
        layers = qwen3._build_qwen3_moe_layers(moe_comm_backend="standard", rope=rope, **about)
    else:
        rope = ComplexRoPE.Config(dim=size["head"], max_seq_len=LENGTH, theta=500000, scaling="llama")
        layers = llama3._build_llama3_layers(hidden_dim=size["hidden"], rope=rope, **about)
    for layer in layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    init = {"weight": torch.nn.init.normal_} if not is_moe else qwen3._EMBEDDING_INIT
    config = (qwen3.Qwen3Model if is_moe else llama3.Llama3Model).Config(
        dim=width, vocab_size=VOCABULARY, norm=layers[0].ffn_norm, layers=layers,
        tok_embeddings=Embedding.Config(num_embeddings=VOCABULARY, embedding_dim=width, param_init=init),
        lm_head=Linear.Config(in_features=width, out_features=VOCABULARY, param_init=llama3._output_linear_init(width)),
    )  # fmt: skip
    model = config.build()
    model.init_states()
    return model


LIBRARIES = {"transformers": make_transformers, "torchtitan": make_torchtitan}


def make(library, size, device, dtype, seed=0):
    torch.manual_seed(seed)
    with torch.device(device):
        return LIBRARIES[library](size).to(dtype).train()


def list_cases():
    """Yields (library, model) for installed libraries."""
    for library in LIBRARIES:
        try:
            importlib.import_module("torchtitan.models.qwen3" if library == "torchtitan" else library)
        except ImportError as error:
            print(f"{library} is left out: {error}", flush=True)
            continue
        for model in SIZES["full"]:
            yield library, model


def list_plans(library, model, which, options):
    """Returns plans by name: one by predicted times, and one with everything in FP8 if the first
    leaves matmuls in bf16. Without the compiler, plans are read from files.
    """

    def load():
        path, size = options.folder and options.folder / f"{library}, {model}, {which}.json", SIZES[which][model]
        if path and path.exists():
            return fp8moe.torch.Plan.load(path)
        tokens = {"full": TOKENS, "small": linear_layers.WINDOW * linear_layers.BATCH, "cpu": 64}[which]
        plan = fp8moe.torch.plan(make(library, size, "meta", torch.bfloat16), tokens=tokens, expert_rows=tokens * size.get("top", 1))
        if path:
            plan.save(path)
        return plan

    is_mixed = any(matmul.recipe != "rowwise" and not matmul.reason for matmul in load().matmuls)
    return {"plan": load(), **({"FP8": load().set("**", "rowwise")} if is_mixed else {})}


def prepare(options):
    """Writes plans and their programs for an H100 or H200."""
    from fp8moe import cache
    from fp8moe.torch._prepare import list_requests

    options.folder.mkdir(parents=True, exist_ok=True)
    for (library, model), which in itertools.product(list_cases(), ("full", "small")):
        for plan in list_plans(library, model, which, options).values():
            print(f"{library}, {model}, {which}\n{plan}", flush=True)
            converted = make(library, SIZES[which][model], "meta", torch.bfloat16)
            fp8moe.torch.apply(converted, plan)
            for request in list_requests(converted, "sm_90a"):
                print(f"{request.what}: {cache.put(request, str(options.folder))}", flush=True)


# --- Steps --------------------------------------------------------------------------


class Model:
    """The whole model as a function of tokens."""

    def __init__(self, model, size, batch, length, generator):
        self.model, self.leaves = model, list(model.parameters())
        self.inputs = [torch.randint(VOCABULARY, (batch, length), generator=generator).to(self.leaves[0].device)]

    def parameters(self):
        return iter(self.leaves)

    def __call__(self, tokens):
        found = self.model(tokens)
        return getattr(found, "logits", found).float()


class Matmuls:
    """The linear layers of the first layer's attention, and its feed-forward part."""

    def __init__(self, model, size, batch, length, generator):
        layer = next(iter(model.layers.values())) if hasattr(model, "tok_embeddings") else model.model.layers[0]
        attention = getattr(layer, "attention", None) or layer.self_attn
        self.linear = torch.nn.ModuleList(module for module in attention.modules() if isinstance(module, torch.nn.Linear))
        self.network = next(part for name in ("mlp", "moe", "feed_forward") if (part := getattr(layer, name, None)) is not None)
        parameters = [*self.linear.parameters(), *self.network.parameters()]
        widths, like = (size["width"], size["heads"] * size["head"]), parameters[0]
        self.inputs = [torch.randn(batch, length, width, generator=generator).to(like).requires_grad_() for width in widths]
        self.leaves = [*self.inputs, *parameters]

    def __call__(self, x, attended):
        *before, last = self.linear
        return [*(linear(x) for linear in before), last(attended), self.network(x)]


def make_step(part, how, seed):
    """Returns a forward and backward that leaves gradients in the leaves, as training does, and
    returns the outputs.
    """
    run = torch.compile(part.__call__, dynamic=False) if how == "compiled" else part
    call = lambda: list(outputs) if isinstance(outputs := run(*part.inputs), (list, tuple)) else [outputs]  # noqa: E731
    generator = torch.Generator().manual_seed(seed)
    gradients = [torch.randn(y.shape, generator=generator).to(y.detach()) for y in call()]

    def step():
        for leaf in part.leaves:
            leaf.grad = None
        outputs = call()
        torch.autograd.backward(outputs, gradients)
        return outputs

    return step


def time_steps(steps, rounds, rng):
    """Returns median microseconds by name."""
    found = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name in rng.sample(list(steps), len(steps)):
            torch.cuda.synchronize()
            begin, end = timing.events_ms(lambda: [steps[name]() for _ in range(CALLS)])
            torch.cuda.synchronize()
            found[name] += [begin.elapsed_time(end) * 1e3 / CALLS] if turn else []
    return {name: statistics.median(times) for name, times in found.items()}


def measure(library, model, what, options, rng):
    """Returns rows of the table, one for eager and one for compiled calls."""
    which, device, batch, length = ("cpu", "cpu", 2, 32) if options.cpu_check else ("full", "cuda", TOKENS // LENGTH, LENGTH)
    parts, expected, size = {}, None, SIZES[which][model]
    for name, plan in {"bf16": None, **list_plans(library, model, which, options)}.items():
        whole = make(library, size, device, torch.bfloat16, options.seed)
        if plan is not None:
            fp8moe.torch.apply(whole, plan)
        parts[name] = PARTS[what](whole, size, batch, length, torch.Generator().manual_seed(options.seed))
    for how in ("eager",) if options.eager else ("eager", "compiled"):
        steps, row = {}, {"model": model, "library": library, "what": what, "how": how}
        for name, part in parts.items():
            try:
                step = make_step(part, how, options.seed + 1)
                results = [tensor.detach().clone() for tensor in (*step(), *(leaf.grad for leaf in part.leaves if leaf.grad is not None))]
            except Exception as error:  # a library that fails to compile does not end the run
                if how == "eager" or options.cpu_check:
                    raise
                print(f"{library}, {model}, {what}, {name}, compiled, is left out: {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            steps[name], expected = step, expected or results
            if name != "bf16":
                row[f"{name} dB"] = round(min(find_db(*pair) for pair in zip(results, expected, strict=True)), 1)
                # A whole model may route a token to another expert, which is no error of a matmul.
                if what == "matmuls" and not row[f"{name} dB"] >= LEAST_DB:
                    sys.exit(f"{row}: expected at least {LEAST_DB} dB over bf16; nothing is timed")
            del results
        if options.rounds and not options.cpu_check:
            us = time_steps(steps, options.rounds, rng)
            row |= {f"{name} us": round(time) for name, time in us.items()}
            row |= {f"{name} over bf16": round(us["bf16"] / time, 2) for name, time in us.items() if name != "bf16" and "bf16" in us}
        yield row


def find_db(found, expected):
    found, expected = found.float(), expected.float()
    return 20 * torch.log10(expected.norm() / (found - expected).norm().clamp(min=1e-30)).item()


PARTS = {"matmuls": Matmuls, "model": Model}


def compare_losses(library, model, options):
    """Prints a row of the table, updated after each seed."""
    which, device, window, batch = ("cpu", "cpu", 32, 2) if options.cpu_check else ("small", "cuda", linear_layers.WINDOW, linear_layers.BATCH)
    last, losses = min(linear_layers.LAST_STEPS, options.steps), {"bf16": [], "FP8": []}
    for seed in range(options.seed, options.seed + options.seeds):
        for name, found in losses.items():
            trained = make(library, SIZES[which][model], device, torch.float32, seed)
            if name == "FP8":
                applied = fp8moe.torch.apply(trained, list(list_plans(library, model, which, options).values())[-1])
            part = Model(trained, SIZES[which][model], batch, window, torch.Generator())
            found.append(statistics.mean(linear_layers.train(part, options.steps, window, batch, seed)[-last:]))
        differences = [100 * (fp8 / bf16 - 1) for bf16, fp8 in zip(*losses.values(), strict=True)]
        yield {
            "model": model, "library": library, "steps": options.steps, "seeds": len(differences),
            "modules in FP8": sum(each.recipe != "bf16" and not each.reason for each in applied),
            **{f"{name} loss": round(statistics.mean(found), 4) for name, found in losses.items()},
            "difference %": round(statistics.mean(differences), 2),
            "standard error %": round(statistics.stdev(differences) / len(differences) ** 0.5, 2) if differences[1:] else None,
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="the folder that --prepare wrote")
    parser.add_argument("--prepare", action="store_true", help="write plans and programs for an H100 or H200 to the folder, and exit")
    parser.add_argument("--cpu-check", action="store_true", help="compare small models on the CPU")
    parser.add_argument("--only", choices=("times", "losses"), help="run only these")
    parser.add_argument("--eager", action="store_true", help="skip torch.compile")
    parser.add_argument("--rounds", type=int, default=9, help="blocks of each contender (default: 9); 0 times nothing")
    parser.add_argument("--steps", type=int, default=linear_layers.STEPS, help=f"steps of training (default: {linear_layers.STEPS})")
    parser.add_argument("--match", type=re.compile, default=re.compile(""), help="only cases whose 'LIBRARY, MODEL' this regular expression finds")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, inputs and windows (default: 0)")
    parser.add_argument("--seeds", type=int, default=1, help="trainings with each precision, from --seed on (default: 1)")
    parser.add_argument("--json", type=pathlib.Path, help="save times, or losses with --only losses")
    options = parser.parse_args()
    if not options.folder and not options.cpu_check:
        parser.error("name the folder that --prepare writes")
    global torch, fp8moe, timing  # --help needs none of them
    import timing  # isort: skip, as it finds fp8moe
    import torch
    import fp8moe.torch

    if options.prepare:
        return prepare(options)
    print(f"{'CPU' if options.cpu_check else torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}", flush=True)
    rows, rng = {"times": {}, "losses": {}}, random.Random(options.seed)
    for which, (library, model) in itertools.product([options.only] if options.only else rows, list(list_cases())):
        if not options.match.search(f"{library}, {model}"):
            continue
        makers = [compare_losses(library, model, options)]
        if which == "times":
            makers = [measure(library, model, what, options, rng) for what in PARTS]
        for row in itertools.chain(*makers):
            print(row, flush=True)
            rows[which][tuple(each for each in row.values() if isinstance(each, str))] = row
            torch.compiler.reset()
            gc.collect()
            if options.json:
                options.json.write_text(json.dumps([*rows[options.only or "times"].values()], indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
