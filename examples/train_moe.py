#!/usr/bin/env python3
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small mixture-of-experts language model (transformers' Qwen3-MoE, from scratch) on the sources of Python's
standard library, byte by byte, with its experts in

    bf16      transformers' own grouped matmul
    torchao   torchao's FP8 grouped matmul (if torchao is installed, on a GPU)
    fp8moe    this project's, under the recipe of --recipe

All contenders start from the same weights and see the same bytes. The
script prints the loss, the validation loss with its standard error over batches, step time,
tokens/s and peak memory. It writes all figures (training.json) and a plot of the losses
(training.svg) to the folder of --out.

Training is chaotic: two runs in bf16 end with different losses, as do runs in FP8. --repeats=N
trains each contender with N seeds of weights and data. It prints how much seeds differ, and FP8
from bf16 with the same seed.

Three lines make a model train with fp8moe; see `make_model` and `train`:

    fp8moe.torch.transformers.register(recipe="rowwise")
    model = AutoModelForCausalLM.from_config(config, experts_implementation="fp8moe", dtype=torch.bfloat16)
    fp8moe.torch.prepare(model)      # optional: otherwise the first step waits for the compiler

With a supported GPU the default is --size=gpu: 2.3 billion parameters and 16384 tokens a step,
which fit into 80 GB. Otherwise it is --size=cpu: a toy model for a few steps, which shows that it
works but no speed.

    python examples/train_moe.py                                   # all three
    python examples/train_moe.py --contenders bf16 fp8moe --steps 1000 --compile --graphs
    python examples/train_moe.py --contenders bf16 fp8moe --steps 1000 --compile --repeats 4
    python examples/train_moe.py --contenders fp8moe --inspect 50  # what FP8 does to each expert, every 50 steps

With several processes, one per GPU (gloo on the CPU), windows are divided between them. A step sees
the same bytes as with one process. Experts are divided between --ep processes (default: all), and
tokens travel by an all-to-all and back (fp8moe.torch.moe).

All other parameters are replicated (DDP) or divided (FSDP2), as are experts between ranks with the
same ones:

    torchrun --nproc-per-node=4 examples/train_moe.py --contenders bf16 fp8moe                      # EP = 4
    torchrun --nproc-per-node=4 examples/train_moe.py --contenders fp8moe --wire fp8                # tokens travel in FP8
    torchrun --nproc-per-node=4 examples/train_moe.py --contenders fp8moe --capacity 1.5 --compile  # nothing waits, tokens may be dropped
    torchrun --nproc-per-node=4 examples/train_moe.py --contenders fp8moe --ep 1 --data fsdp        # FSDP2, or DDP: --data ddp
    torchrun --nproc-per-node=4 examples/train_moe.py --contenders fp8moe --ep 2 --data fsdp        # EP = 2 and FSDP2

torchrun ends all processes when one has ended. A collective that waits longer than --timeout
seconds ends its process with a message.

On a machine without the compiler, prepare the programs elsewhere and name their folder:

    python -m fp8moe prepare grouped_mm $(python examples/train_moe.py --size=gpu --print-sizes) --target=sm_90a -o FOLDER
    FP8MOE_ARTIFACTS=FOLDER python examples/train_moe.py

With --ep=N, --print-sizes prints the sizes of one of N processes.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import gc
import json
import os
import pathlib
import statistics
import sys
import sysconfig
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from training_report import Runs, compare, draw, print_tables, standard_error

os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")

CONTENDERS = ("bf16", "torchao", "fp8moe")
RECIPES = ("rowwise", "rowwise_bf16_grad_weights", "forward_only")  # fp8moe.programs.RECIPES
SIZES: Dict[str, Dict[str, Any]] = {
    "cpu": dict(hidden=64, moe_hidden=48, experts=4, top_k=2, layers=2, heads=4, length=48, batch=4, steps=8, rate=3e-3, validation=8),
    "gpu": dict(
        hidden=2048, moe_hidden=1408, experts=64, top_k=8, layers=4, heads=16, length=2048, batch=8, steps=300, rate=2e-4,
        validation=32,
    ),
}
WARM_UP = 3  # steps that compile, tune and allocate, and are not timed
HELD_OUT = 16  # one of this many files is used for validation only


# --- Data -------------------------------------------------------------------------


def read_text(least: int, held_out: bool = False) -> bytes:
    """Returns sources of the standard library in the order of their names: at least this many bytes
    of the held-out files, or of the others.
    """
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    paths = [path for path in sorted(folder.rglob("*.py")) if "site-packages" not in path.parts and "test" not in path.parts]
    text = bytearray()
    for i, path in enumerate(paths):
        if (i % HELD_OUT == HELD_OUT // 2) == held_out:
            text += path.read_bytes()
            if len(text) >= least:
                break
    return bytes(text)


def batches(text: bytes, size: Dict[str, Any], seed: int, options: argparse.Namespace) -> Iterator[Any]:
    """Yields windows at random places, which depend only on the seed."""
    import torch

    data = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(size["steps"]):
        yield cut(data, torch.randint(len(data) - size["length"], (size["batch"],), generator=generator).tolist(), size, options)


def validation_batches(text: bytes, size: Dict[str, Any], options: argparse.Namespace) -> Iterator[Any]:
    """Yields windows at equal distances, always the same ones."""
    import torch

    data = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    count = size["validation"] * size["batch"]
    begins = [i * (len(data) - size["length"]) // count for i in range(count)]
    for i in range(size["validation"]):
        yield cut(data, begins[i :: size["validation"]], size, options)


def cut(data: Any, begins: List[int], size: Dict[str, Any], options: argparse.Namespace) -> Any:
    """Returns this process's part of the windows that begin at these places."""
    import torch

    windows = torch.stack([data[begin : begin + size["length"]] for begin in begins])
    return windows.chunk(options.world)[options.rank].to(device=options.device, dtype=torch.int64)


# --- Models -----------------------------------------------------------------------


def make_config(size: Dict[str, Any]) -> Any:
    import transformers

    return transformers.Qwen3MoeConfig(
        vocab_size=256, hidden_size=size["hidden"], num_hidden_layers=size["layers"], head_dim=size["hidden"] // size["heads"],
        num_attention_heads=size["heads"], num_key_value_heads=size["heads"], max_position_embeddings=size["length"],
        num_experts=size["experts"], num_experts_per_tok=size["top_k"], moe_intermediate_size=size["moe_hidden"],
        intermediate_size=size["moe_hidden"], norm_topk_prob=True, output_router_logits=True, use_cache=False,
    )  # fmt: skip


def make_model(contender: str, config: Any, seed: int, options: argparse.Namespace) -> Any:
    import torch
    import transformers

    implementation = {"bf16": "grouped_mm", "torchao": "torchao", "fp8moe": "fp8moe"}[contender]
    options.experts = config.num_experts
    if options.ep > 1:
        implementation = f"{contender} on several ranks"
        register_experts(implementation, contender, options)
    elif contender == "fp8moe":
        import fp8moe.torch

        fp8moe.torch.transformers.register(recipe=options.recipe)
    elif contender == "torchao":
        register_experts(implementation, contender, options)
    torch.manual_seed(seed)
    with torch.device(options.device):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, experts_implementation=implementation
        )
    return model.train()


def network_of(contender: str, options: argparse.Namespace) -> Callable[[Any, Any, Any], Any]:
    """Returns a function of a module of experts, rows sorted by expert and the ends of their
    groups: two matmuls and the gate.
    """
    import torch

    if contender == "torchao":
        return run_torchao
    multiply = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm

    def gate(module: Any, h: Any) -> Any:
        return module._apply_gate(h)

    if options.compile and options.ep > 1 and not options.capacity:  # graphs of layers do not contain it
        gate = torch.compile(gate, dynamic=True)

    def run(module: Any, rows: Any, offsets: Any) -> Any:
        gate_up, down = list_weights(module)
        if len(rows) == 0:  # torch's kernels fail without rows
            return gate(module, rows @ gate_up[0]) @ down[0]
        return multiply(gate(module, multiply(rows, gate_up, offs=offsets)), down, offs=offsets)

    return run


def run_torchao(module: Any, rows: Any, ends: Any) -> Any:
    """Runs torchao's matmuls with groups padded to multiples of 16 rows, which they require."""
    import torch
    from torchao.prototype.moe_training.fp8_grouped_mm import _to_fp8_rowwise_then_scaled_grouped_mm as multiply

    numbers = torch.arange(rows.shape[0], device=rows.device)
    begins = torch.nn.functional.pad(ends[:-1], (1, 0))
    padded_ends = torch.cumsum((ends - begins + 15) // 16 * 16, 0, dtype=torch.int32)
    group = torch.searchsorted(ends, numbers.to(torch.int32), right=True)
    shifts = torch.nn.functional.pad(padded_ends[:-1], (1, 0)) - begins
    places = numbers + shifts[group]
    # This upper bound of rows needs no synchronization with the device.
    padded = rows.new_zeros((rows.shape[0] + 15 * len(ends) + 15) // 16 * 16, rows.shape[1])
    padded = padded.index_copy(0, places, rows)
    for weights in (module.gate_up_proj, module.down_proj):
        padded = multiply(
            padded, weights.transpose(-2, -1), padded_ends, torch.bfloat16, pad_token_groups_for_grouped_mm=False
        )
        padded = module._apply_gate(padded) if weights is module.gate_up_proj else padded
    return padded[places]


def register_experts(name: str, contender: str, options: argparse.Namespace) -> None:
    """Registers experts with transformers by that name. All contenders move tokens as fp8moe does,
    so that only the experts differ.
    """
    import torch
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    from fp8moe.torch import expert_parallel, moe

    group = options.mesh["experts"].get_group() if options.ep > 1 else None
    network = None if contender == "fp8moe" else network_of(contender, options)

    def experts(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        tokens = hidden_states, top_k_index, top_k_weights
        if network is None:
            return moe(*tokens, *list_weights(self), recipe=options.recipe, group=group, wire=options.wire, **list_capacity(self, options))
        return expert_parallel(
            *tokens, functools.partial(network, self), num_experts=options.experts, group=group, **list_capacity(self, options)
        )

    # Without a capacity, row counts are data, so graphs break here. Eager code then needs less host
    # time than broken graphs.
    is_data = options.ep > 1 and options.capacity is None
    ALL_EXPERTS_FUNCTIONS.register(name, torch.compiler.disable(experts) if is_data else experts)


# --- Several processes ------------------------------------------------------------


def parallelize(model: Any, options: argparse.Namespace) -> Any:
    """Returns the model with its experts divided between --ep ranks.

    --data treats all other parameters, and experts between ranks with the same ones: as DDP, or
    divided by FSDP2.
    """
    import torch
    import torch.distributed as dist

    experts = [layer.mlp.experts for layer in model.model.layers]
    if options.ep > 1:
        for module in experts:
            divide_experts(module, options)
    parameters = {parameter for module in experts if options.ep > 1 for parameter in module.parameters()}
    if options.data == "ddp":
        names = [name for name, parameter in model.named_parameters() if parameter in parameters]
        names += [name for name, _ in model.named_buffers() if name.endswith("dropped")]
        torch.nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
        for parameter in parameters if options.world > options.ep else ():
            parameter.register_post_accumulate_grad_hook(functools.partial(sum_gradient, options=options))
        mark_divided(experts, options)
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    from torch.distributed.fsdp import fully_shard

    mesh, copies = dist.init_device_mesh(options.device, (options.world,)), options.world // options.ep
    ignored = parameters if copies == 1 else set()
    for layer in model.model.layers:
        if parameters and copies > 1:
            fully_shard(layer.mlp.experts, mesh=options.mesh["data"])  # gradients are means over these ranks
        fully_shard(layer, mesh=mesh, ignored_params=ignored)
    model = fully_shard(model, mesh=mesh, ignored_params=ignored)
    mark_divided(experts, options)  # fully_shard has replaced the parameters
    return model


def mark_divided(experts: List[Any], options: argparse.Namespace) -> None:
    """Marks divided parameters. Their gradients are sums over ranks, which `clip_gradients` turns
    into means.
    """
    for module in experts if options.ep > 1 else ():
        for parameter in module.parameters():
            parameter.is_divided = True


def divide_experts(module: Any, options: argparse.Namespace) -> None:
    """Leaves the experts of this rank in a module, and tells `prepare` their sizes."""
    import torch

    for name in ("gate_up_proj", "down_proj"):
        part = getattr(module, name).detach().chunk(options.ep)[options.mesh["experts"].get_local_rank()].clone()
        setattr(module, name, torch.nn.Parameter(part))
    # CUDA graphs update a module's buffers in place.
    module.register_buffer("dropped", torch.zeros(1, dtype=torch.int64, device=options.device), persistent=False)
    module.fp8moe_recipe = options.recipe
    module.fp8moe_weights = functools.partial(list_weights, module)


def list_capacity(module: Any, options: argparse.Namespace) -> Dict[str, Any]:
    """Returns arguments of `moe` and of `expert_parallel`."""
    return {} if options.capacity is None else dict(capacity=options.capacity, dropped=module.dropped)


def list_weights(module: Any) -> List[Any]:
    return [module.gate_up_proj.transpose(-2, -1), module.down_proj.transpose(-2, -1)]


def sum_gradient(parameter: Any, options: argparse.Namespace) -> None:
    """Sums an expert's gradient over the ranks with the same expert, as soon as it is computed."""
    import torch.distributed as dist

    options.pending.append(dist.all_reduce(parameter.grad, group=options.mesh["data"].get_group(), async_op=True))


def clip_gradients(model: Any, options: argparse.Namespace) -> Any:
    """Clips gradients to norm 1 over the parameters of all ranks, each of which has a part or a
    copy. Returns the previous norm.

    Losses are means over ranks, but gradients of divided experts are sums. One multiplication makes
    the mean and clips.
    """
    import torch
    import torch.distributed as dist

    if options.world == 1:
        return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    while options.pending:
        options.pending.pop().wait()
    gradients: Dict[Any, List[Any]] = {}  # by the number of copies and of summands
    for parameter in model.parameters():
        if parameter.grad is not None:
            grad, is_divided = parameter.grad, options.ep > 1 and hasattr(parameter, "is_divided")
            by_fsdp = options.data == "fsdp" and options.world > options.ep  # FSDP has averaged over ranks with the same experts
            summands = 1 if not is_divided else options.ep if by_fsdp else options.world
            copies = 1 if options.data == "fsdp" else options.world // options.ep if is_divided else options.world
            gradients.setdefault((copies, summands), []).append(grad.to_local() if hasattr(grad, "to_local") else grad)
    square = sum((torch.nn.utils.get_total_norm(some).float() / n).square() / copies for (copies, n), some in gradients.items())
    dist.all_reduce(square)
    scale = (1.0 / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for (_, n), some in gradients.items():
        torch._foreach_mul_(some, (scale / n).to(some[0].dtype))
    return square.sqrt()


def group_parameters(model: Any) -> List[Dict[str, Any]]:
    """Groups parameters for an optimizer whose kernels take tensors of one kind: plain ones, or
    those of one mesh.
    """
    groups: Dict[Any, List[Any]] = {}
    for parameter in model.parameters():
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return [{"params": parameters} for parameters in groups.values()]


def reduce(number: float, options: argparse.Namespace, how: str) -> float:
    """Reduces a number over all ranks: "mean" or "max"."""
    import torch
    import torch.distributed as dist

    if options.world == 1:
        return number
    tensor = torch.tensor(number, dtype=torch.float64, device=options.device)
    dist.all_reduce(tensor, dist.ReduceOp.MAX if how == "max" else dist.ReduceOp.SUM)
    return float(tensor.item()) / (options.world if how == "mean" else 1)


def why_not(contender: str, device: str) -> Optional[str]:
    """Returns the reason why a contender cannot run here, or None."""
    if contender != "torchao":
        return None
    try:
        import torchao.prototype.moe_training.fp8_grouped_mm  # noqa: F401
    except ImportError as error:
        return f"torchao's FP8 training of experts cannot be imported ({error})"
    return "its kernels need a GPU" if device == "cpu" else None


# --- Training ---------------------------------------------------------------------


def train(contender: str, size: Dict[str, Any], seed: int, options: argparse.Namespace) -> Dict[str, Any]:
    """Returns the losses and figures of one contender with one seed."""
    import torch

    import fp8moe.torch

    model = make_model(contender, make_config(size), seed, options)
    on_gpu = options.device != "cpu"
    if options.compile:
        for layer in model.model.layers:
            layer.compile(mode="reduce-overhead" if options.graphs else "default")
    if options.world > 1:
        model = parallelize(model, options)
    if contender == "fp8moe":
        fp8moe.torch.prepare(model, progress=options.rank == 0)
    optimizer = torch.optim.AdamW(group_parameters(model), lr=size["rate"], betas=(0.9, 0.95), fused=on_gpu)
    inspecting = contender == "fp8moe" and options.inspect > 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    losses: List[float] = []
    norms: List[float] = []
    seconds: List[float] = []
    text = read_text(size["steps"] * size["batch"] * size["length"])
    context: Any = fp8moe.torch.inspect(model, every=options.inspect) if inspecting else contextlib.nullcontext()
    with context as report:
        for step, tokens in enumerate(batches(text, size, seed, options)):
            begin = time.perf_counter()
            torch.compiler.cudagraph_mark_step_begin()  # results of the previous step's graphs are not used any more
            for group in optimizer.param_groups:
                group["lr"] = size["rate"] * min(1.0, (step + 1) / max(size["steps"] // 10, 1))
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            norm = clip_gradients(model, options)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(reduce(loss.item(), options, "mean"))  # waits for the device
            norms.append(float(norm))
            seconds.append(time.perf_counter() - begin)
            if options.rank == 0 and (step % max(size["steps"] // 10, 1) == 0 or step + 1 == size["steps"]):
                print(f"{contender:8} step {step:5}  loss {losses[-1]:.4f}  {seconds[-1] * 1e3:.0f} ms", flush=True)
    if inspecting and options.rank == 0:
        print(report)
    step_s = statistics.median(seconds[min(WARM_UP, len(seconds) - 1) :])
    peak_gib = reduce(torch.cuda.max_memory_allocated() / 2**30, options, "max") if on_gpu else None
    if options.capacity:
        mine = sum(int(buffer) for name, buffer in model.named_buffers() if name.endswith("dropped"))
        dropped = reduce(mine, options, "mean") * options.world
        slots = size["steps"] * size["batch"] * size["length"] * size["top_k"] * size["layers"]
        if options.rank == 0:
            print(f"{contender:8} had no room for {100 * dropped / slots:.2f}% of tokens' experts", flush=True)
    validation = validate(model, size, options)
    if options.rank == 0:
        print(f"{contender:8} validation  loss {statistics.mean(validation):.4f}", flush=True)
    return {
        "seed": seed,
        "losses": losses,
        "norms": norms,
        "seconds": seconds,
        "last_loss": statistics.mean(losses[-max(len(losses) // 10, 1) :]),
        "validation_losses": validation,
        "validation_loss": statistics.mean(validation),
        "validation_error": standard_error(validation),
        "step_ms": step_s * 1e3,
        "tokens_per_s": size["batch"] * size["length"] / step_s,
        "peak_gib": peak_gib,
    }


def validate(model: Any, size: Dict[str, Any], options: argparse.Namespace) -> List[float]:
    """Returns the losses of held-out batches, without the router's balancing loss."""
    import torch

    text = read_text(size["validation"] * size["batch"] * size["length"], held_out=True)
    losses = []
    # Eager, as graphs without gradients would need another compilation. The model has no dropout,
    # so it stays in training mode.
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        for tokens in validation_batches(text, size, options):
            logits = model(input_ids=tokens).logits
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
            losses.append(reduce(loss.item(), options, "mean"))
    return losses


# --- Command ----------------------------------------------------------------------


def parse(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="contenders to train (default: all)")
    parser.add_argument("--size", choices=SIZES, help="size of the model (default: gpu where there is one, else cpu)")
    parser.add_argument("--steps", type=int, help="number of steps (default: 300 for --size=gpu, 8 for --size=cpu)")
    parser.add_argument("--layers", type=int, help="number of layers (default: 4 for --size=gpu, 2 for --size=cpu)")
    parser.add_argument("--recipe", choices=RECIPES, default="rowwise", help="recipe of fp8moe (default: rowwise)")
    parser.add_argument("--compile", action="store_true", help="compile each layer with torch.compile; the first step takes long")
    parser.add_argument("--graphs", action="store_true", help="with --compile: replay each layer, forward and backward, as CUDA graphs")
    parser.add_argument("--ep", type=int, help="divide experts between this many processes (default: all)")
    parser.add_argument("--data", choices=("ddp", "fsdp"), default="ddp", help="how several processes share all other parameters (default: ddp)")
    parser.add_argument("--wire", choices=("bf16", "fp8"), default="bf16", help="type in which tokens and their gradients are sent, for fp8moe (default: bf16)")
    parser.add_argument(
        "--capacity", type=float, metavar="F",
        help="with --ep: room for F times what even routing sends, so that sizes are fixed (default: any number of tokens, for which the host waits)",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a collective may wait for other processes (default: 600)")
    parser.add_argument("--inspect", type=int, default=0, metavar="N", help="inspect fp8moe's run every N steps, which slows these down")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches (default: 0)")
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="train each with N consecutive seeds from --seed on (default: 1)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder for training.json and training.svg")
    parser.add_argument("--print-sizes", action="store_true", help="print the sizes for `python -m fp8moe prepare` and exit")
    options = parser.parse_args(arguments)
    options.rank, options.world = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
    options.ep, options.pending = options.world if options.ep is None else options.ep, []
    if options.print_sizes and not options.size:
        parser.error("--print-sizes: say of which model with --size")
    if options.print_sizes and (options.ep < 1 or SIZES[options.size]["experts"] % options.ep):
        number = SIZES[options.size]["experts"]
        parser.error(f"--ep: {options.ep} processes cannot divide the {number} experts of --size={options.size} equally")
    if not options.print_sizes and (options.ep < 1 or options.world % options.ep):
        parser.error(f"--ep: {options.world} processes cannot be divided into groups of {options.ep}")
    for name in ("steps", "layers", "repeats"):
        if (number := getattr(options, name)) is not None and number < 1:
            parser.error(f"--{name}: {number} is less than 1")
    if options.inspect < 0:
        parser.error(f"--inspect: {options.inspect} is less than 0")
    if options.graphs and not options.compile:
        parser.error("--graphs is a mode of --compile: give both")
    if options.capacity is not None and not options.capacity > 0:
        parser.error(f"--capacity: {options.capacity} is not above 0")
    if options.graphs and options.ep > 1 and options.capacity is None:
        parser.error("--graphs: a graph cannot hold the sizes of an all-to-all, which differ from step to step; fix them with --capacity, or give --ep=1")
    if options.graphs and options.inspect:
        parser.error("--inspect reads what a step computes as it goes, which a replayed graph (--graphs) does not show")
    return options


def main() -> int:
    options = parse()
    if options.print_sizes:
        size = SIZES[options.size]
        experts = size["experts"] // options.ep
        first = f"{size['hidden']},{2 * size['moe_hidden']},{experts}"
        recipe = "" if options.recipe == RECIPES[0] else f" --recipe={options.recipe}"
        print(f"--sizes={first} --sizes={size['moe_hidden']},{size['hidden']},{experts}{recipe}")
        return 0
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"this example needs torch and transformers ({error}); install them with pip", file=sys.stderr)
        return 1

    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    options.size = options.size or ("gpu" if options.device == "cuda" else "cpu")
    size = {**SIZES[options.size]}
    if options.world > 1:
        for what, ranks in (("experts", options.ep), ("batch", options.world)):
            if size[what] % ranks:
                print(f"{ranks} processes cannot divide '{what}' of --size={options.size}, {size[what]}, equally", file=sys.stderr)
                return 1
        if options.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend, timeout = "nccl" if options.device == "cuda" else "gloo", datetime.timedelta(seconds=options.timeout)
        torch.distributed.init_process_group(backend, timeout=timeout)
        shape = (options.world // options.ep, options.ep)
        options.mesh = torch.distributed.init_device_mesh(options.device, shape, mesh_dim_names=("data", "experts"))
    try:
        return run(size, options)
    finally:
        if options.world > 1:
            torch.distributed.destroy_process_group()


def run(size: Dict[str, Any], options: argparse.Namespace) -> int:
    """Trains all contenders and writes their results."""
    import torch
    import transformers

    size.update({name: value for name in ("steps", "layers") if (value := getattr(options, name))})
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    ranks = f"{options.world} processes, " if options.world > 1 else ""
    seeds = f"seed {options.seed}" if options.repeats == 1 else f"seeds {options.seed} to {options.seed + options.repeats - 1}"
    layers = f" --layers={options.layers}" if options.layers else ""
    title = f"Qwen3-MoE, --size={options.size}{layers}, on {where}: {ranks}{versions}, {seeds}"
    if options.rank == 0:
        print(title)
    runs: Runs = {}
    for contender in options.contenders:
        if reason := why_not(contender, options.device):
            if options.rank == 0:
                print(f"{contender} is left out: {reason}")
        else:
            runs[contender] = []
    if not runs:
        return 1
    for seed in range(options.seed, options.seed + options.repeats):
        if options.repeats > 1 and options.rank == 0:
            print(f"seed {seed}")
        for contender, of_seeds in runs.items():
            of_seeds.append(train(contender, size, seed, options))
            torch.compiler.reset()  # drops graphs of the previous model
            gc.collect()  # models with divided experts have reference cycles
            if options.device == "cuda":
                torch.cuda.empty_cache()
    if options.rank > 0:
        return 0
    print_tables(runs)
    options.out.mkdir(parents=True, exist_ok=True)
    contenders = {name: of_seeds[0] for name, of_seeds in runs.items()}
    found = {"what": title, "size": size, "contenders": contenders, "seeds": runs, "comparison": compare(runs)}
    (options.out / "training.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "training.svg").write_text(draw(runs, title))
    print(f"\nwrote {options.out / 'training.json'} and {options.out / 'training.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
