#!/usr/bin/env python3
# ===- scaling.py - Training steps on several GPUs --------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times training steps on 1, 2, 4 and 8 GPUs (those that are there), with as many tokens for each GPU, in bf16 and in FP8.

    python3 benchmarks/scaling.py --json build/scaling.json
    python3 benchmarks/scaling.py --models dsv3 --modes ep --gpus 2 --compile
    python3 benchmarks/scaling.py --toy                       # on the CPU, with gloo: whether it runs

    example   examples/train_moe.py's model: whole steps with the optimizer
    qwen3     a layer of Qwen3-30B-A3B with 16 experts for each GPU, its share with EP = 8: forward and backward
    dsv3      a layer of DeepSeek-V3 with 32 experts for each GPU, its share with EP = 8: forward and backward

    ep        experts are divided between all GPUs, all else is replicated (DDP)
    ep_fsdp   experts are divided between half of the GPUs, and everything by FSDP2
    ddp, fsdp experts are replicated or divided like all else, as many experts in all as one GPU has

"fp8" has experts in FP8, "fp8 wire" also tokens and gradients as they travel, "fp8 linear" also the linear layers. Each expert gets as many
tokens, and each token travels to as many GPUs as its experts allow. Columns: tokens/s of all GPUs; scaling, the tokens/s of a GPU over those of the fewest
GPUs; communication, the part of a step in which kernels of NCCL run, and exposed, that in which nothing else does; waits, how often the
host waits for the device in a step, for each layer. Runs on one GPU use the experts of transformers.
"""

import argparse
import collections
import functools
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = {"ep": [], "ep_fsdp": ["--data=fsdp"], "ddp": ["--ep=1"], "fsdp": ["--ep=1", "--data=fsdp"]}
PRECISIONS = {"bf16": ("bf16", "bf16"), "fp8": ("fp8moe", "bf16"), "fp8 wire": ("fp8moe", "fp8"), "fp8 linear": ("fp8moe", "bf16")}
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize")


def make_config(model, experts, toy):
    """A model of transformers; `experts` is how many ranks share the experts."""
    import train_moe
    import transformers

    if model == "example":
        return train_moe.make_config(train_moe.SIZES["cpu" if toy else "gpu"])
    common = dict(vocab_size=256, num_hidden_layers=1, num_experts_per_tok=2 if toy else 8, norm_topk_prob=True, use_cache=False)
    if model == "qwen3":
        sizes = dict(hidden_size=64, moe_intermediate_size=48, intermediate_size=48, head_dim=16) if toy else dict(
            hidden_size=2048, moe_intermediate_size=768, intermediate_size=768, head_dim=128
        )  # fmt: skip
        heads = dict(num_attention_heads=4, num_key_value_heads=2) if toy else dict(num_attention_heads=32, num_key_value_heads=4)
        return transformers.Qwen3MoeConfig(**common, **sizes, **heads, num_experts=(2 if toy else 16) * experts)
    sizes = dict(
        hidden_size=64, moe_intermediate_size=48, intermediate_size=48, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=32,
        kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16,
    ) if toy else dict(hidden_size=7168, moe_intermediate_size=2048, intermediate_size=2048)  # fmt: skip
    number = (2 if toy else 32) * experts
    config = transformers.DeepseekV3Config(**common, **sizes, n_routed_experts=number, first_k_dense_replace=0, n_group=1, topk_group=1)
    config.num_experts = number
    return config


# --- A process --------------------------------------------------------------------------


def work(options):
    """Measures all cases with the ranks that there are; rank 0 writes them."""
    import torch
    import train_moe

    import fp8moe

    rows = []
    for model in options.models:
        for mode in options.modes:
            for precision in options.precisions:
                wire = PRECISIONS[precision][1]
                settings = train_moe.parse([*MODES[mode], f"--wire={wire}", "--recipe=rowwise", *(["--compile"] if options.compile else [])])
                settings.device = "cpu" if options.toy else "cuda"
                if mode == "ep_fsdp":
                    settings.ep = max(settings.world // 2, 1)
                if (settings.world == 1 and mode != "ep") or (wire == "fp8" and settings.ep == 1) or (mode == "ep_fsdp" and settings.ep < 2):
                    continue
                if settings.world > 1:
                    shape = (settings.world // settings.ep, settings.ep)
                    settings.mesh = torch.distributed.init_device_mesh(settings.device, shape, mesh_dim_names=("data", "experts"))
                row = {"model": model, "mode": mode if settings.world > 1 else "", "precision": precision, "GPUs": settings.world}
                try:
                    row.update(measure(model, precision, settings, options))
                except (torch.OutOfMemoryError, fp8moe.Error, ValueError) as error:
                    row["why not"] = str(error)[:100]
                if settings.rank == 0:
                    print(json.dumps(row), flush=True)
                    rows.append(row)
                torch.compiler.reset()
                gc.collect()  # models with divided experts refer to themselves
                if not options.toy:
                    torch.cuda.empty_cache()
    if settings.rank == 0:
        pathlib.Path(options.worker).write_text(json.dumps(rows))


def balance(module, arguments, number):
    """Experts get equally many tokens, which random routers do not do: token t has every (E / k)-th expert from t on, so that it travels to
    as many ranks as it can."""
    import torch

    x, index, weights = arguments
    tokens, k = index.shape
    at = torch.arange(tokens, device=index.device).unsqueeze(1) + torch.arange(k, device=index.device) * (number // k)
    return x, (at % number).to(index.dtype), weights


def measure(model_name, precision, settings, options):
    import torch
    import train_moe

    import fp8moe.torch

    config = make_config(model_name, settings.ep, options.toy)
    model = train_moe.make_model(PRECISIONS[precision][0], config, 0, settings)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()  # routers of DeepSeek-V3, too, as FSDP2 wants one type
    layers = len(model.model.layers)
    if precision == "fp8 linear":
        fp8moe.torch.convert(model, recipe="rowwise", filter=lambda _, name: "layers" in name)
    for layer in model.model.layers:
        layer.mlp.experts.register_forward_pre_hook(functools.partial(balance, number=config.num_experts))
    if settings.compile:
        for layer in model.model.layers:
            layer.compile()
    if settings.world > 1:
        model = train_moe.parallelize(model, settings)
    length, batch = (32, 2) if options.toy else (2048, options.tokens // 2048)
    generator = torch.Generator().manual_seed(settings.rank)
    tokens = torch.randint(256, (batch, length), generator=generator).to(settings.device)
    optimizer = None
    if model_name == "example":
        optimizer = torch.optim.AdamW(train_moe.group_parameters(model), lr=1e-5, fused=not options.toy)

    def step():
        model(input_ids=tokens, labels=tokens).loss.backward()
        if optimizer:
            train_moe.clip_gradients(model, settings)
            optimizer.step()
        while settings.pending:
            settings.pending.pop().wait()
        model.zero_grad()

    for _ in range(options.warm_up):
        step()
    if not options.toy:
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(3):
        begin = wait(options)
        for _ in range(options.steps):
            step()
        seconds.append((wait(options) - begin) / options.steps)
    step_s = train_moe.reduce(statistics.median(seconds), settings, "max")
    row = {"tokens/s": round(settings.world * tokens.numel() / step_s), "ms/step": round(1e3 * step_s, 2)}
    if not options.toy:
        row["peak GiB"] = round(train_moe.reduce(torch.cuda.max_memory_allocated() / 2**30, settings, "max"), 1)
        row.update(profile(step, step_s, layers, options, settings.rank))
    return row


def wait(options):
    import torch

    if not options.toy:
        torch.cuda.synchronize()
    return time.perf_counter()


def profile(step, step_s, layers, options, rank):
    """The share of communication, and how often the host waits, of some steps."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    steps = 3
    with torch.profiler.profile(activities=activities) as found:
        begin = wait(options)
        for _ in range(steps):
            step()
        wall = wait(options) - begin
    compute, communication, times, waits = [], [], collections.Counter(), collections.Counter()
    for event in found.events():
        if event.name in WAITS:
            waits[event.name] += 1
        if event.device_type != torch.autograd.DeviceType.CUDA or getattr(event, "is_user_annotation", False) or event.name.startswith("nccl:"):
            continue
        span = (event.time_range.start, event.time_range.end)
        (communication if event.name.startswith("nccl") else compute).append(span)
        times[event.name[:80]] += event.time_range.elapsed_us() / steps
    if options.kernels and rank == 0:
        print(f"wall {1e3 * wall / steps:.1f} ms, compute {cover(compute) / steps / 1e3:.1f}, all {cover(compute + communication) / steps / 1e3:.1f}")
        for name, us in times.most_common(options.kernels):
            print(f"  {us:9.0f} us {name}")
    busy, us = cover(compute), 1e6 * step_s * steps
    both = cover(compute + communication)
    number = sum(waits.values()) - 2  # those of `wait`
    return {
        "communication %": round(100 * cover(communication) / us, 1),
        "exposed %": round(100 * (both - busy) / us, 1),
        "idle %": round(max(0.0, 100 * (1 - both / us)), 1),
        "waits a layer": round(number / steps / layers, 1),
    }


def cover(spans):
    """The time in which any of them is."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


# --- All counts ----------------------------------------------------------------------------


def add_ratios(rows):
    """Scaling over the fewest GPUs of the same model (one GPU has no mode), and the gain over bf16."""
    for row in rows:
        alike = [other for other in rows if other["model"] == row["model"] and other.get("tokens/s")]
        same = [o for o in alike if o["precision"].split()[0] == row["precision"].split()[0] and o["mode"] in ("", row["mode"])]
        base = min(same, key=lambda other: (other["GPUs"], other["precision"] != row["precision"]), default=None)
        if not row.get("tokens/s"):
            continue
        row["scaling"] = round(row["tokens/s"] / row["GPUs"] / (base["tokens/s"] / base["GPUs"]), 2)
        for other in alike:
            if other["precision"] == "bf16" and (other["mode"], other["GPUs"]) == (row["mode"], row["GPUs"]):
                row["over bf16"] = round(row["tokens/s"] / other["tokens/s"], 2)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=("example", "qwen3", "dsv3"), default=["example", "qwen3", "dsv3"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["bf16", "fp8", "fp8 wire"])
    parser.add_argument("--gpus", nargs="+", type=int, help="how many (default: those of 1, 2, 4 and 8 that are there)")
    parser.add_argument("--tokens", type=int, default=8192, help="of each GPU, a multiple of 2048 (default: 8192)")
    parser.add_argument("--steps", type=int, default=5, help="of each of three measurements (default: 5)")
    parser.add_argument("--warm-up", type=int, default=4, help="steps before (default: 4)")
    parser.add_argument("--compile", action="store_true", help="compile layers")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="print the N kernels that take longest")
    parser.add_argument("--toy", action="store_true", help="small models on the CPU, with gloo")
    parser.add_argument("--json", help="save all figures here")
    parser.add_argument("--join", nargs="+", help="outputs of earlier runs whose rows make the table instead")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def find_counts(options):
    import torch

    return [1, 2] if options.toy else [count for count in (1, 2, 4, 8) if count <= torch.cuda.device_count()]


def launch(options, count):
    """The rows of that many processes."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "rows.json")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", __file__, f"--worker={out}"]
        subprocess.run([*command, *sys.argv[1:]], check=True)
        return json.loads(pathlib.Path(out).read_text())


def main():
    options = parse()
    sys.path.append(str(ROOT / "examples"))
    if options.worker:
        import torch
        import train_moe  # noqa: F401

        if not options.toy:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("gloo" if options.toy else "nccl")
        work(options)
        torch.distributed.destroy_process_group()
        return
    if options.join:
        lines = [line for path in options.join for line in pathlib.Path(path).read_text().splitlines()]
        rows = [json.loads(line) for line in lines if line.startswith("{")]
    else:
        rows = [row for count in options.gpus or find_counts(options) for row in launch(options, count)]
    add_ratios(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row.get(column, "")) for column in columns) + " |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
