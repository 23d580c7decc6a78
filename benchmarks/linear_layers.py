#!/usr/bin/env python3
# ===- linear_layers.py - Linear layers of dense models ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times the linear layers of a model's block, forward and backward, on an NVIDIA GPU, and trains a
small dense model. The layers are converted by fp8moe.torch.convert and compared with torch's bf16.
Layers that read one tensor are timed together. `all` has every layer in FP8. `chosen` has the
compiler's decision for each layer by predicted times.

On a machine with the compiler and torch (no GPU needed), write programs and decisions to a folder:

    python3 benchmarks/linear_layers.py --build build/linear-artifacts

On a machine with a GPU:

    FP8MOE_ARTIFACTS=build/linear-artifacts python3 benchmarks/linear_layers.py build/linear-artifacts

Results and gradients are first compared with float32's. Nothing is timed if an error exceeds FP8's.

Times are medians of CUDA graphs in random order (timing.py), and of eager calls in a loop, which
include host time.

--cpu-check compares small layers on the CPU and times nothing. --host prints the host's
microseconds for each layer and call, with and without launches, beside torch's (torch_host.py).
With --cpu-check, only those without launches are meaningful.
"""

import argparse
import functools
import json
import math
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 8192
TARGET = "sm_90a"
# Each part reads one tensor. Its layers are (name, N, K).
MODELS = {
    "Llama3 8B": {
        "attention": (("wq", 4096, 4096), ("wk", 1024, 4096), ("wv", 1024, 4096)),
        "output of attention": (("wo", 4096, 4096),),
        "feed forward": (("w1", 14336, 4096), ("w3", 14336, 4096)),
        "output of feed forward": (("w2", 4096, 14336),),
    },
    "Llama3 8B, TP = 2": {
        "attention": (("wq", 2048, 4096), ("wk", 512, 4096), ("wv", 512, 4096)),
        "output of attention": (("wo", 4096, 2048),),
        "feed forward": (("w1", 7168, 4096), ("w3", 7168, 4096)),
        "output of feed forward": (("w2", 4096, 7168),),
    },
    "Qwen3-30B-A3B, attention": {
        "attention": (("wq", 4096, 2048), ("wk", 512, 2048), ("wv", 512, 2048)),
        "output of attention": (("wo", 2048, 4096),),
    },
}
CPU_MODELS = {"small": {"attention": (("wq", 64, 48), ("wk", 32, 48), ("wv", 32, 48)), "output of attention": (("wo", 48, 64),)}}
# Tolerance: each product has two roundings to e4m3.
TOLERANCE = 0.06

WIDTH, HIDDEN, HEADS, LAYERS, WINDOW, BATCH = 1024, 2816, 8, 4, 512, 8
STEPS, LAST_STEPS = 200, 20
LEARNING_RATE = 3e-4


# --- Layers -----------------------------------------------------------------------


def make_part(shapes, device):
    import torch

    part = torch.nn.Module()
    for name, n, k in shapes:
        part.add_module(name, torch.nn.Linear(k, n, bias=False, device=device, dtype=torch.bfloat16))
    return part


def decide(models, target):
    """Returns the compiler's decisions, {model: {part: {layer: recipe}}}, and a table of them."""
    import fp8moe.torch
    import torch

    decisions = {}
    for model, parts in models.items():
        modules = torch.nn.ModuleDict({part: make_part(shapes, "meta") for part, shapes in parts.items()})
        conversion = fp8moe.torch.convert(modules, tokens=TOKENS, target=target)
        print(f"{model}, {TOKENS} tokens\n{conversion}\n", flush=True)
        names = (layer.name.rsplit(".", 1) for layer in conversion.layers)
        found = decisions[model] = {}
        for (part, layer), of_layer in zip(names, conversion.layers):
            found.setdefault(part, {})[layer] = of_layer.recipe
    return decisions


def build(folder):
    from fp8moe import cache, linear_programs

    folder.mkdir(parents=True, exist_ok=True)
    decisions = decide(MODELS, TARGET)
    (folder / "decisions.json").write_text(json.dumps(decisions, indent=1) + "\n")
    needs = {(k, n, recipe) for model, parts in MODELS.items() for part, shapes in parts.items() for name, n, k in shapes
             for recipe in ("rowwise", decisions[model][part][name]) if recipe != "bf16"}  # fmt: skip
    needs |= {(k, n, "rowwise") for n, k in TRAINED_SHAPES}
    requests = [linear_programs.linear_input_request(k, TARGET) for k in sorted({k for k, _, _ in needs})]
    requests += [linear_programs.linear_request(k, n, TARGET, recipe=recipe) for k, n, recipe in sorted(needs)]
    for request in requests:
        print(f"{request.what}: {cache.put(request, str(folder))}", flush=True)


class Part:
    """Layers that read one tensor, in bf16 and converted."""

    def __init__(self, shapes, recipes, tokens, device):
        import fp8moe.torch
        import torch
        from fp8moe.torch._linear import share_inputs

        self.layers = make_part(shapes, device)
        self.x = torch.randn(tokens, shapes[0][2], device=device, dtype=torch.bfloat16).requires_grad_()
        self.gradients = [torch.randn(tokens, n, device=device, dtype=torch.bfloat16) for _, n, _ in shapes]
        for name, layer in self.layers.named_children():
            if recipes is not None:
                fp8moe.torch.convert_linear(layer, recipes[name], least_rows=0)
        share_inputs(self.layers)

    def forward(self):
        return [layer(self.x) for layer in self.layers.children()]

    def step(self):
        import torch

        results = self.forward()
        return results, torch.autograd.grad(results, (self.x, *self.layers.parameters()), self.gradients)

    def train(self):
        """Runs a training step. backward() accumulates gradients in the leaves; torch.autograd.grad
        is slower on the host.
        """
        import torch

        for leaf in (self.x, *self.layers.parameters()):
            leaf.grad = None
        torch.autograd.backward(self.forward(), self.gradients)


def error_of(part):
    """Returns the largest error of results and gradients relative to float32."""
    found, gradients = part.step()
    x = part.x.detach().float()
    error, grad_x = 0.0, 0
    for layer, y, gradient, grad_weight in zip(part.layers.children(), found, part.gradients, gradients[1:]):
        weight, gradient = layer.weight.detach().float(), gradient.float()
        grad_x = grad_x + gradient @ weight
        for result, exact in ((y, x @ weight.t()), (grad_weight, gradient.t() @ x)):
            error = max(error, ((result.float() - exact).norm() / exact.norm()).item())
    return max(error, ((gradients[0].float() - grad_x).norm() / grad_x.norm()).item())


def eager_us(step, calls=20):
    import torch

    for _ in range(3):
        step()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        step()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * begin.elapsed_time(end) / calls


def measure(shapes, decided, options, rng):
    """Returns {contender: (us, eager us)} of a part."""
    import torch
    from timing import sustained_us

    device, tokens = ("cpu", 64) if options.cpu_check else ("cuda", TOKENS)
    everything = {name: "rowwise" for name, _, _ in shapes}
    contenders = {"bf16": None, "all": everything, "chosen": decided}
    if decided == everything:
        del contenders["chosen"]
    parts = {}
    for name, recipes in contenders.items():
        torch.manual_seed(options.seed)
        parts[name] = Part(shapes, recipes, tokens, device)
        error = error_of(parts[name])
        if not error <= (TOLERANCE if recipes else 0.01):
            sys.exit(f"WRONG: {shapes}, {name}: error {error:.3f}, expected at most {TOLERANCE}; nothing is timed")
    if options.cpu_check:
        return {}
    us = sustained_us({name: [part.step] for name, part in parts.items()}, options.rounds, rng, slow_ms=math.inf)
    found = {name: (us[name], eager_us(part.train)) for name, part in parts.items()}
    return {**found, "chosen": found.get("chosen", found["all"])}


def measure_host(models, options):
    """Prints the host's microseconds per layer, forward and with backward. All layers of a model
    are called in turn.
    """
    import torch
    from torch_host import no_launches, time_host

    device, tokens = ("cpu", 64) if options.cpu_check else ("cuda", TOKENS)
    rng = random.Random(options.seed)
    print("| model | layers | host us of a layer: bf16 forward | with backward | all forward | with backward | all without launches, forward | with backward |")
    print("|---" * 8 + "|")
    for model, parts in models.items():
        made = {name: [Part(shapes, recipes and {layer: recipes for layer, _, _ in shapes}, tokens, device) for shapes in parts.values()]
                for name, recipes in (("bf16", None), ("all", "rowwise"))}  # fmt: skip

        def run(name, what):
            for part in made[name]:
                getattr(part, what)()

        contenders = {(what, name): functools.partial(run, name, what) for name in made for what in ("forward", "step")}
        found = time_host(contenders, options.rounds, rng, device)
        with no_launches():
            alone = time_host({key: call for key, call in contenders.items() if key[1] == "all"}, options.rounds, rng, device)
        count = sum(map(len, parts.values()))
        cells = [found["forward", "bf16"], found["step", "bf16"], found["forward", "all"], found["step", "all"], alone["forward", "all"], alone["step", "all"]]
        print(f"| {model} | {count} | {' | '.join(f'{median / count:.1f} (least {least / count:.1f})' for least, median in cells)} |", flush=True)


def measure_all(models, decisions, options):
    import torch

    rng = random.Random(options.seed)
    print("| model, part | bf16 us | all us | over bf16 | chosen us | over bf16 | eager: bf16 | all | chosen |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model, parts in models.items():
        total = {}
        for part, shapes in parts.items():
            found = measure(shapes, decisions[model][part], options, rng)
            if found:
                show(f"{model}, {part}", found)
                torch.cuda.empty_cache()
            for name, times in found.items():
                total[name] = tuple(map(sum, zip(times, total.get(name, (0.0, 0.0)))))
        if total:
            show(f"{model}, sum", total)


def show(what, found):
    bf16, everything, chosen = (found[name] for name in ("bf16", "all", "chosen"))
    cells = [f"{bf16[0]:.0f}", f"{everything[0]:.0f}", f"{bf16[0] / everything[0]:.2f}x", f"{chosen[0]:.0f}", f"{bf16[0] / chosen[0]:.2f}x"]
    cells += [f"{eager:.0f}" for _, eager in (bf16, everything, chosen)]
    print(f"| {what} | {' | '.join(cells)} |", flush=True)


# --- A small dense model ----------------------------------------------------------

TRAINED_SHAPES = ((WIDTH, WIDTH), (WIDTH // 4, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN))


def make_model(width, hidden, heads, layers, device):
    """Returns a Llama over bytes without position embeddings. Causal attention gives enough
    position information for short windows.
    """
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(wq=(width, width), wk=(width, width // 4), wv=(width, width // 4), wo=(width, width))
            sizes.update(w1=(width, hidden), w3=(width, hidden), w2=(hidden, width))
            for name, (k, n) in sizes.items():
                self.add_module(name, nn.Linear(k, n, bias=False))
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)

        def forward(self, x):
            h = self.norm1(x)
            q, k, v = (t.unflatten(-1, (-1, width // heads)).transpose(1, 2) for t in (self.wq(h), self.wk(h), self.wv(h)))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.wo(attended.transpose(1, 2).flatten(-2))
            h = self.norm2(x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layers = nn.Embedding(256, width), nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.output = nn.RMSNorm(width), nn.Linear(width, 256, bias=False)
            nn.init.normal_(self.embed.weight, std=0.02)

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.output(self.norm(x)).float()

    torch.manual_seed(0)
    return Model().to(device)


def train(model, steps, window, batch, seed):
    """Returns the losses of training on windows of this repository's documents. Master weights are
    f32, matmuls run under autocast.
    """
    import torch

    device = next(model.parameters()).device
    text = b"".join(path.read_bytes() for path in sorted((ROOT / "docs").rglob("*.md")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(data) - window - 1, (batch,), generator=generator).tolist()
        windows = torch.stack([data[start : start + window + 1] for start in starts]).long()
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(windows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def compare_losses(options):
    import fp8moe.torch

    small = options.cpu_check
    sizes = (64, 96, 4, 2, "cpu") if small else (WIDTH, HIDDEN, HEADS, LAYERS, "cuda")
    steps, window, batch = (4, 32, 2) if small else (STEPS, WINDOW, BATCH)
    losses = {}
    for name in ("bf16", "fp8moe"):
        model = make_model(*sizes)
        if name == "fp8moe":
            conversion = fp8moe.torch.convert(model, filter=lambda module, name: name != "output", least_rows=0)
            print(f"{len(conversion.in_fp8)} of {len(conversion.layers)} layers of the small model are in FP8", flush=True)
        losses[name] = train(model, steps, window, batch, options.seed)
    last = min(LAST_STEPS, steps)
    ends = {name: sum(found[-last:]) / last for name, found in losses.items()}
    difference = ends["fp8moe"] / ends["bf16"] - 1
    print(f"mean loss of the last {last} of {steps} steps: bf16 {ends['bf16']:.4f}, fp8moe {ends['fp8moe']:.4f}, {difference:+.2%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="the folder that --build wrote")
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="write programs and decisions, and exit")
    parser.add_argument("--cpu-check", action="store_true", help="compare small layers on the CPU")
    parser.add_argument("--host", action="store_true", help="print only the host's time of each layer and call")
    parser.add_argument("--rounds", type=int, default=11, help="blocks of each contender (default: 11)")
    parser.add_argument("--seed", type=int, default=0, help="seed of tensors and windows (default: 0)")
    options = parser.parse_args()
    if options.build:
        return build(options.build)
    if not options.folder and not options.cpu_check:
        parser.error("name the folder that --build wrote")
    import torch

    if options.host:
        if not options.cpu_check:
            print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {TOKENS} tokens, seed {options.seed}", flush=True)
        return measure_host(CPU_MODELS if options.cpu_check else MODELS, options)
    if options.cpu_check:
        measure_all(CPU_MODELS, decide(CPU_MODELS, TARGET), options)
    else:
        torch.backends.cuda.matmul.allow_tf32 = False
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {TOKENS} tokens, seed {options.seed}", flush=True)
        measure_all(MODELS, json.loads((options.folder / "decisions.json").read_text()), options)
    compare_losses(options)


if __name__ == "__main__":
    main()
