#!/usr/bin/env python3
# ===- scaling.py - Training steps on several GPUs --------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times training steps on 1, 2, 4 and 8 GPUs (as available) in bf16 and in FP8, with equally many
tokens on each GPU.

    python3 benchmarks/scaling.py --json build/scaling.json
    python3 benchmarks/scaling.py --models dsv3 --modes ep --gpus 2 --compile
    python3 benchmarks/scaling.py --modes ep --compile --capacity 1.25 --graphs
    python3 benchmarks/scaling.py --toy                       # on the CPU, with gloo: whether it runs

    example   the model of examples/train_moe.py: whole steps with the optimizer
    qwen3     layers (--layers) of Qwen3-30B-A3B with 16 experts on each GPU, as with EP = 8: forward and backward
    dsv3      layers of DeepSeek-V3 with 32 experts on each GPU, as with EP = 8: forward and backward

    ep        experts are divided between all GPUs, all else is replicated (DDP)
    ep_fsdp   experts are divided between half of the GPUs (two at least), and FSDP2 divides everything over the others
    ddp       everything is replicated
    fsdp      FSDP2 divides everything

    bf16        no FP8
    fp8         experts
    fp8 wire    experts, and tokens and gradients as they travel
    fp8 linear  experts and linear layers

Routing is even: each expert gets equally many tokens, and each token goes to the same number of
GPUs. On one GPU the experts are those of transformers. Each case runs in its own processes. A
failed case is a row with the reason.

    tokens/s         of all GPUs
    scaling          tokens/s of a GPU, over those on the fewest GPUs
    profiled ms      a step under the profiler, of which the next four are parts
    communication %  kernels of NCCL run
    exposed %        nothing else runs meanwhile
    idle %           nothing runs
    waits a layer    how often the host waits for the device in a step, for each layer

A rank that arrives first waits inside NCCL's kernels. The profile is therefore that of the rank
with the least communication.
"""

import argparse
import collections
import functools
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = {"ep": [], "ep_fsdp": ["--data=fsdp"], "ddp": ["--ep=1"], "fsdp": ["--ep=1", "--data=fsdp"]}
PRECISIONS = {"bf16": ("bf16", "bf16"), "fp8": ("fp8moe", "bf16"), "fp8 wire": ("fp8moe", "fp8"), "fp8 linear": ("fp8moe", "bf16")}
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")  # `wait` and the profiler synchronize the device
# Parts of a step by regular expressions of kernel names. The first match counts.
PARTS = {
    "communication": "^nccl",
    "matmuls of experts": "grouped_matmul|cutlass",
    "quantize": "quantize",
    "linear layers": r"nvjet|gemm|^matmul_\d",
    "attention": "sdpa|flash|fmha",
    "optimizer": "multi_tensor_apply",
}
Case = collections.namedtuple("Case", "model mode precision gpus")


def make_config(model, experts, toy, layers=1):
    """Returns a configuration of transformers. `experts` is the number of ranks that share the
    experts.
    """
    import train_moe
    import transformers

    if model == "example":
        return train_moe.make_config(train_moe.SIZES["cpu" if toy else "gpu"])
    common = dict(vocab_size=256, num_hidden_layers=layers, num_experts_per_tok=2 if toy else 8, norm_topk_prob=True, use_cache=False)
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


# --- A rank of a case -------------------------------------------------------------------


def balance(module, arguments, number):
    """Makes routing even, as random routers are not. A token goes to k experts at equal distances,
    and the next token to their neighbours.
    """
    import torch

    x, index, weights = arguments
    tokens, k = index.shape
    at = torch.arange(tokens, device=index.device).unsqueeze(1) + torch.arange(k, device=index.device) * (number // k)
    return x, (at % number).to(index.dtype), weights


def parse_settings(case, options):
    """Returns the options of examples/train_moe.py for a case."""
    import torch
    import train_moe

    wire = PRECISIONS[case.precision][1]
    flags = [f"--{name}" for name in ("compile", "graphs") if getattr(options, name)]
    if options.capacity:
        flags.append(f"--capacity={options.capacity}")
    settings = train_moe.parse([*MODES.get(case.mode, []), f"--wire={wire}", "--recipe=rowwise", *flags])
    settings.device = "cpu" if options.toy else "cuda"
    if case.mode == "ep_fsdp":
        settings.ep = max(case.gpus // 2, 2)
    if case.gpus > 1:
        shape = (case.gpus // settings.ep, settings.ep)
        settings.mesh = torch.distributed.init_device_mesh(settings.device, shape, mesh_dim_names=("data", "experts"))
    return settings


def make_step(case, settings, options):
    """Returns a function that runs one step, its number of tokens and its number of layers."""
    import torch
    import train_moe

    import fp8moe.torch

    config = make_config(case.model, settings.ep, options.toy, options.layers)
    model = train_moe.make_model(PRECISIONS[case.precision][0], config, 0, settings)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()  # DeepSeek-V3's routers, too, as FSDP2 needs one type
    layers = len(model.model.layers)
    if case.precision == "fp8 linear":
        fp8moe.torch.convert(model, recipe="rowwise", filter=lambda _, name: "layers" in name)
    for layer in model.model.layers:
        layer.mlp.experts.register_forward_pre_hook(functools.partial(balance, number=config.num_experts))
        if settings.compile:
            layer.compile(mode="reduce-overhead" if settings.graphs else "default")
    if case.gpus > 1:
        model = train_moe.parallelize(model, settings)
    length, batch = (32, 2) if options.toy else (2048, options.tokens // 2048)
    generator = torch.Generator().manual_seed(settings.rank)
    tokens = torch.randint(256, (batch, length), generator=generator).to(settings.device)
    optimizer = None
    if case.model == "example":
        optimizer = torch.optim.AdamW(train_moe.group_parameters(model), lr=1e-5, fused=not options.toy)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        model(input_ids=tokens, labels=tokens).loss.backward()
        if optimizer:
            train_moe.clip_gradients(model, settings)
            optimizer.step()
        while settings.pending:
            settings.pending.pop().wait()
        model.zero_grad()

    return step, tokens.numel(), layers


def measure(case, options):
    """Returns the figures of this rank."""
    import torch

    step, tokens, layers = make_step(case, parse_settings(case, options), options)
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
    row = {"tokens": tokens, "ms/step": round(1e3 * statistics.median(seconds), 2)}
    if not options.toy:
        row["peak GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
        row.update(profile(step, layers, options, case))
    return row


def wait(options):
    import torch

    if not options.toy:
        torch.cuda.synchronize()
    return time.perf_counter()


def profile(step, layers, options, case):
    """Returns the parts of profiled steps, relative to their own duration, which profiling
    lengthens.
    """
    import torch

    steps = 3
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        begin = wait(options)
        for _ in range(steps):
            step()
        us = 1e6 * (wait(options) - begin)
    if options.traces and os.environ["RANK"] == "0":
        found.export_chrome_trace(f"{options.traces}/{'_'.join(map(str, case)).replace(' ', '_')}.json.gz")
    kernels, waits = [], 0
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if not getattr(event, "is_user_annotation", False) and not event.name.startswith("nccl:"):
                kernels.append((event.name, event.time_range.start, event.time_range.end))
        else:
            waits += event.name in WAITS
    row = {"profiled ms": round(us / steps / 1e3, 2), **find_shares(kernels, us)}
    row["waits a layer"] = round(waits / steps / layers, 1)
    if options.kernels:
        times, parts = collections.Counter(), collections.Counter()
        for name, start, end in kernels:
            times[name[:80]] += (end - start) / steps / 1e3
            parts[next((part for part, names in PARTS.items() if re.search(names, name)), "other")] += (end - start) / steps / 1e3
        row["parts"] = {name: round(ms, 2) for name, ms in parts.most_common()}
        row["kernels"] = {name: round(ms, 3) for name, ms in times.most_common(options.kernels)}
    return row


def find_shares(kernels, us):
    """Returns percentages of a duration, from kernels (name, start, end)."""
    spans = [[(start, end) for name, start, end in kernels if name.startswith("nccl") == is_nccl] for is_nccl in (True, False)]
    communication, compute, both = cover(spans[0]), cover(spans[1]), cover(spans[0] + spans[1])
    shares = {"communication %": communication, "exposed %": both - compute, "idle %": us - both}
    return {name: round(100 * part / us, 1) for name, part in shares.items()}


def cover(spans):
    """Returns the total time that the spans cover."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def work(case, rank, folder, options, result):
    """Sends a rank's figures, or its error, with the time."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(case.gpus))
    import torch

    try:
        if not options.toy:
            torch.cuda.set_device(rank)
        backend = "gloo" if options.toy else "nccl"
        torch.distributed.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=case.gpus)
        row = measure(case, options)
        torch.distributed.barrier()  # no rank leaves while another one communicates
    except Exception as error:
        result.send((time.monotonic(), f"rank {rank}: {type(error).__name__}: {error}"))
        return
    result.send((time.monotonic(), row))
    torch.distributed.destroy_process_group()


# --- All cases -----------------------------------------------------------------------------


def list_cases(options):
    """Yields the cases. A single GPU has no mode. Only modes with divided experts send tokens."""
    for count in options.gpus or find_counts(options):
        for model, mode, precision in itertools.product(options.models, options.modes if count > 1 else [""], options.precisions):
            if precision != "fp8 wire" or mode.startswith("ep"):
                yield Case(model, mode, precision, count)


def find_counts(options):
    import torch

    return [1, 2] if options.toy else [count for count in (1, 2, 4, 8) if count <= torch.cuda.device_count()]


def run_case(case, options):
    """Returns the row of a case. Its ranks are separate processes, so that no failure affects the
    next case.
    """
    fork = multiprocessing.get_context("fork")  # children inherit all imports
    ranks, readers, found = [], {}, None
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(case.gpus):
                reader, writer = fork.Pipe(duplex=False)
                ranks.append(fork.Process(target=work, args=(case, rank, folder, options, writer)))
                ranks[rank].start()
                writer.close()
                readers[reader] = rank
            found = collect(readers, ranks, options.timeout)
        finally:
            for process in ranks:
                process.join(10 if isinstance(found, list) else 0)
                process.kill()
                process.join()
    row = {"model": case.model, "mode": case.mode, "precision": case.precision, "GPUs": case.gpus}
    return {**row, **(summarize(found) if isinstance(found, list) else {"why not": found})}


def collect(readers, ranks, timeout):
    """Returns the messages of all ranks, or the first error, which caused the others."""
    end, found = time.monotonic() + timeout, []
    while readers:
        ready = multiprocessing.connection.wait(list(readers), max(0.0, end - time.monotonic()))
        if not ready:
            return f"ranks {sorted(readers.values())} took longer than {timeout:g} s (--timeout)"
        reasons = []
        for reader in ready:
            rank = readers.pop(reader)
            try:
                when, what = reader.recv()
            except EOFError:
                ranks[rank].join()
                when, what = 0.0, f"rank {rank} ended with status {ranks[rank].exitcode}"
            (reasons if isinstance(what, str) else found).append((when, what))
        if reasons:
            return min(reasons)[1][:200]
    return [what for _, what in found]


def summarize(found):
    """Returns the figures of the slowest rank, and the profile of the rank that the others wait
    for.
    """
    row = dict(min(found, key=lambda one: one.get("communication %", 0.0)))
    row["ms/step"] = max(one["ms/step"] for one in found)
    tokens = sum(one["tokens"] for one in found)
    del row["tokens"]
    if "peak GiB" in row:
        row["peak GiB"] = max(one["peak GiB"] for one in found)
    return {"tokens/s": round(1e3 * tokens / row["ms/step"]), **row}


def add_ratios(rows):
    """Adds the scaling over the fewest GPUs of the same model, and the gain over bf16."""
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
    parser.add_argument("--gpus", nargs="+", type=int, help="numbers of GPUs (default: the available ones of 1, 2, 4 and 8)")
    parser.add_argument("--layers", type=int, default=1, help="layers of qwen3 and dsv3 (default: 1, where the host's time for all else counts most)")
    parser.add_argument("--tokens", type=int, default=8192, help="tokens of each GPU, a multiple of 2048 (default: 8192)")
    parser.add_argument("--steps", type=int, default=5, help="steps of each of three measurements (default: 5)")
    parser.add_argument("--warm-up", type=int, default=4, help="steps before (default: 4)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a case may take (default: 300)")
    parser.add_argument("--compile", action="store_true", help="compile layers")
    parser.add_argument("--graphs", action="store_true", help="with --compile: replay layers as CUDA graphs; with several GPUs, with --capacity")
    parser.add_argument("--capacity", type=float, metavar="F", help="room for F times what even routing sends (default: any number of tokens)")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="add milliseconds of parts and of the N slowest kernels")
    parser.add_argument("--traces", metavar="FOLDER", help="save a timeline of each case here, for chrome://tracing")
    parser.add_argument("--toy", action="store_true", help="small models on the CPU, with gloo")
    parser.add_argument("--json", help="save all figures here")
    parser.add_argument("--join", nargs="+", help="join the --json outputs of several processes to one table instead")
    return parser.parse_args()


def main():
    options = parse()
    if options.join:
        lines = [line for path in options.join for line in pathlib.Path(path).read_text().splitlines()]
        rows = [json.loads(line) for line in lines if line.startswith("{")]
    else:
        sys.path.append(str(ROOT / "examples"))
        import train_moe  # noqa: F401
        import transformers  # noqa: F401

        import fp8moe.torch  # noqa: F401

        rows = []
        for case in list_cases(options):
            rows.append(run_case(case, options))
            print(json.dumps(rows[-1]), flush=True)
    add_ratios(rows)
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in ("parts", "kernels")]
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row.get(column, "")) for column in columns) + " |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
