# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicts which matmuls of a model are worth FP8, before training and without a GPU.

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    print(fp8moe.advise(model, tokens=8192))

The compiler decides (docs/users/precision.md), for matmuls with the sizes of the model's layers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from numbers import Integral
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from . import ops
from .attributes import Precision
from .compiler import require_modelled
from .ir import Module
from .linear_programs import SHARED_INPUTS
from .recipes import ROOT, USES, merge_name

__all__ = ["Advice", "Matmul", "MatmulAdvice", "advise", "find_matmuls"]


@dataclass(frozen=True)
class Matmul:
    """Weights of a module, [N, K] of a linear layer or [experts, N, K], and the number of layers that have them."""

    name: str
    N: int
    K: int
    experts: int = 0
    count: int = 1


@dataclass(frozen=True)
class MatmulAdvice:
    """The decision for one use of a matmul. Times are predicted, in microseconds; None where there is no prediction."""

    matmul: Matmul
    use: str
    choice: str
    bf16_us: Optional[float]
    fp8_us: Optional[float]
    reason: str

    @property
    def chosen_us(self) -> float:
        return (self.fp8_us if self.choice == "fp8" else self.bf16_us) or 0.0


@dataclass(frozen=True)
class Advice:
    """Result of `advise`: `str(advice)` is a table, and `advice.matmuls` holds its lines."""

    matmuls: Tuple[MatmulAdvice, ...]
    tokens: int
    target: str
    recipe: str
    policy: str
    #: Rows of all experts of a layer together; None if the model has no experts.
    expert_rows: Optional[int] = None

    def _sum(self, what: str) -> float:
        return sum((getattr(line, what) or line.bf16_us or 0.0) * line.matmul.count for line in self.matmuls)

    @property
    def bf16_us(self) -> float:
        """Time with all matmuls in bf16."""
        return self._sum("bf16_us")

    @property
    def fp8_us(self) -> float:
        """Time with all matmuls in FP8 that can be."""
        return self._sum("fp8_us")

    @property
    def chosen_us(self) -> float:
        """Time with the decisions that were made."""
        return self._sum("chosen_us")

    def find(self, name: str, use: str) -> MatmulAdvice:
        """The line of a module, by its name in the table, and use."""
        for line in self.matmuls:
            if line.matmul.name == name and line.use == use:
                return line
        names = ", ".join(dict.fromkeys(line.matmul.name for line in self.matmuls))
        raise KeyError(f"there is no {use} of '{name}'; the names are {names}")

    def list_uses(self) -> Dict[Matmul, List[MatmulAdvice]]:
        """The lines of each matmul, in the order of recipes.USES."""
        lines: Dict[Matmul, List[MatmulAdvice]] = {}
        for line in self.matmuls:
            lines.setdefault(line.matmul, []).append(line)
        return lines

    def __str__(self) -> str:
        width = max([len(line.matmul.name) for line in self.matmuls] + [6])
        header = f"{'matmul':{width}}  layers  use      {'N x K':15} experts   bf16 us    FP8 us"
        rows = "" if self.expert_rows is None else f"{self.expert_rows} rows of experts, "
        lines = [f"{self.target}, {self.tokens} tokens, {rows}recipe {self.recipe}, policy {self.policy}; predicted", header]
        for line in self.matmuls:
            m = line.matmul
            times = "".join(f"{'-' if us is None else format(us, '.1f'):>10}" for us in (line.bf16_us, line.fp8_us))
            cells = f"{m.name:{width}}  {m.count:6}  {line.use:8} {f'{m.N} x {m.K}':15} {m.experts or '-':>7}{times}"
            lines.append(f"{cells}  {line.choice:5} {line.reason}")
        if self.chosen_us:
            lines.append(
                f"all layers {self.bf16_us / 1e3:.2f} ms in bf16, {self.fp8_us / 1e3:.2f} ms in FP8, "
                f"{self.chosen_us / 1e3:.2f} ms as decided: {self.bf16_us / self.chosen_us:.2f}x as fast as bf16"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def plot(self, path: Optional[str] = None) -> Any:
        """Plots the speedup of FP8 over the size of the weights, with matplotlib. Also saves the plot to `path`, if given."""
        try:
            import matplotlib.pyplot as plt  # type: ignore[import-not-found,unused-ignore]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("plot draws with matplotlib, which is not installed: pip install matplotlib") from error

        figure, axes = plt.subplots()
        for use, marker in zip(_USES, "os^"):
            lines = [line for line in self.matmuls if line.use == use and line.bf16_us and line.fp8_us]
            sizes = [line.matmul.N * line.matmul.K for line in lines]
            gains = [(line.bf16_us or 0.0) / (line.fp8_us or 1.0) for line in lines]
            axes.scatter(sizes, gains, marker=marker, label=use)
        axes.axhline(1.0, color="gray", linewidth=0.8)
        axes.set(xscale="log", xlabel="N x K of one matrix", ylabel="bf16 time / FP8 time, predicted")
        axes.set_title(f"{self.target}, {self.tokens} tokens, {self.recipe}")
        axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure


# --- What a model has ---------------------------------------------------------------

#: The compiler's names of recipes.USES, in the same order.
_USES = ("forward", "dgrad", "wgrad")


def find_matmuls(model: Any) -> List[Matmul]:
    """The linear layers and experts of a torch module, by name. Weights may be on the device "meta".

    Experts are 3-dimensional parameters, [experts, N, K] or [experts, K, N]. The second order applies to modules whose attribute
    `is_transposed` is true (gpt-oss of transformers), and to projections whose shapes only match that way (Llama 4).
    """
    found = []
    for name, module in model.named_modules():
        if hasattr(module, "in_features") and hasattr(module, "out_features"):
            found.append(Matmul(name or ROOT, int(module.out_features), int(module.in_features)))
            continue
        if hasattr(module, "kernel_size"):  # a convolution
            continue
        is_transposed = _is_transposed(module)
        for key, parameter in module.named_parameters(recurse=False):
            path = f"{name}.{key}" if name else key
            shape = _get_shape(path, parameter)
            rows = getattr(module, "ffn_hidden_size", 0)
            if len(shape) == 2 and rows and shape[0] == rows * getattr(module, "moe_num_experts", 0):  # DBRX stores the rows of all experts in one matrix
                shape = (shape[0] // rows, rows, shape[1])
                is_transposed = key == "w2"
            if len(shape) == 3:
                experts, n, k = shape
                found.append(Matmul(path, k, n, experts) if is_transposed else Matmul(path, n, k, experts))
    return found


def _get_shape(path: str, parameter: Any) -> Tuple[int, ...]:
    """The shape of the whole parameter, even if ZeRO-3 of DeepSpeed has partitioned it."""
    shape = tuple(map(int, getattr(parameter, "ds_shape", parameter.shape)))
    if shape == (0,):
        raise ValueError(
            f"advise: parameter '{path}' is empty, as ZeRO-3 of DeepSpeed leaves those that it has divided; ask before deepspeed.initialize"
        )
    return shape


def _is_transposed(module: Any) -> bool:
    """Whether experts are stored as [experts, K, N]. Without the attribute, the shapes of both projections decide (Llama 4)."""
    shapes = [tuple(getattr(getattr(module, name, None), "shape", ())) for name in ("gate_up_proj", "down_proj")]
    if all(len(shape) == 3 for shape in shapes):
        (_, first, second), (_, width, hidden) = shapes
        if first == hidden and second == 2 * width:
            return True
    return bool(getattr(module, "is_transposed", False))


def _read(model: Any) -> List[Matmul]:
    if hasattr(model, "named_modules"):
        matmuls = find_matmuls(model)
    else:
        entries = list(model) if isinstance(model, Iterable) and not isinstance(model, (str, bytes)) else [model]
        for entry in entries:
            if not isinstance(entry, (Matmul, tuple, list)):
                raise TypeError(f"expected a torch module, or (name, N, K) and (name, N, K, experts) in a list, found {entry!r}")
            if not isinstance(entry, Matmul) and not 3 <= len(entry) <= 5:
                raise TypeError(f"expected (name, N, K) or (name, N, K, experts), found {entry!r}")
        matmuls = [entry if isinstance(entry, Matmul) else Matmul(*entry) for entry in entries]
    shapes: Dict[str, Tuple[int, ...]] = {}
    for matmul in matmuls:
        if not isinstance(matmul.name, str):
            raise TypeError(f"expected names that are text, found {matmul.name!r}")
        shape = (matmul.N, matmul.K, matmul.experts)
        if not all(isinstance(size, Integral) for size in (*shape, matmul.count)):
            raise TypeError(f"{matmul.name}: expected sizes that are integers, found {matmul}")
        if shapes.setdefault(matmul.name, shape) != shape:
            # The decisions are looked up by name.
            raise ValueError(
                f"{matmul.name}: expected one size for each name, found {shapes[matmul.name]} and {shape} "
                "(N, K, experts); give them names of their own"
            )
        if matmul.N < 1 or matmul.K < 1 or matmul.experts < 0 or matmul.count < 1:
            raise ValueError(f"{matmul.name}: expected sizes of at least 1, found {matmul}")
    if not matmuls:
        raise ValueError(
            "the model has no matmuls: no linear layer, and no experts (parameters with three dimensions)"
        )
    return matmuls


def _merge_layers(matmuls: Iterable[Matmul], filters: Sequence[str]) -> Iterator[Tuple[Matmul, str]]:
    """Merges layers of equal sizes into one, with `*` for layer numbers. Also yields the name of its first layer."""
    merged: Dict[Tuple[Any, ...], List[Matmul]] = {}
    for m in matmuls:
        matched = tuple(text in m.name for text in filters)
        merged.setdefault((merge_name(m.name), m.N, m.K, m.experts, matched), []).append(m)
    for (pattern, n, k, experts, _), same in merged.items():
        count = sum(m.count for m in same)
        name = pattern if len(same) > 1 else same[0].name
        yield Matmul(name, n, k, experts, count), same[0].name


def _group_siblings(entries: Iterable[Tuple[Matmul, str]]) -> Iterator[List[Tuple[Matmul, str]]]:
    """Groups of matmuls that read the same tensor."""
    groups: Dict[Tuple[Any, ...], List[Tuple[Matmul, str]]] = {}
    for index, (matmul, name) in enumerate(entries):
        parent, _, leaf = matmul.name.rpartition(".")
        kind = next((i for i, names in enumerate(SHARED_INPUTS) if leaf in names), None)
        key = (index,) if kind is None else (parent, kind, matmul.K, matmul.experts)
        groups.setdefault(key, []).append((matmul, name))
    yield from groups.values()


# --- IR ---------------------------------------------------------------------------


#: Beyond this number, each microbatch's share of a quantization is under two percent.
_MOST_MICROBATCHES = 64

#: Name prefix of the extra matmuls that account for quantizing weights which other matmuls reuse.
_PAID = "paid"


def _operation(experts: int) -> Tuple[str, str, List[str]]:
    """Name and groups clause of a matmul operation, and the function input that the clause needs."""
    if not experts:
        return "linear", "", []
    return "grouped_matmul", f" groups(%ends : tensor<{experts}xi32>)", [f"%ends: tensor<{experts}xi32>"]


def _pay(use: str, weights: str, type: str, name: str, inputs: List[str], results: List[Tuple[str, str]]) -> str:
    """A small FP8 matmul that reads `weights`. It bears the cost of quantizing them, so that other matmuls reuse the result."""
    *experts, k, n = type.partition("xbf16")[0].removeprefix("tensor<").split("x")
    inputs.append(f"%few{name}: tensor<16x{k}xbf16>")
    results.append((f"%paid{name}", f"tensor<16x{n}xbf16>"))
    operation, groups, _ = _operation(int(experts[0]) if experts else 0)
    return (
        f"  %paid{name} = fp8moe.{operation} %few{name}, {weights}{groups} precision <fp8, \"{_PAID} {name}\", {use}> "
        f": tensor<16x{k}xbf16>, {type} -> tensor<16x{n}xbf16>"
    )


def _forward_ir(index: int, group: List[Tuple[Matmul, str]], rows: int, paid: int = 0) -> str:
    """A function with the forward matmuls of modules that read the same tensor. `paid` matmuls also read each of the weights."""
    k, experts = group[0][0].K, group[0][0].experts
    operation, groups, ends = _operation(experts)
    stack, order, columns = (f"{experts}x", "[0, 2, 1]", "#expert_columns") if experts else ("", "[1, 0]", "#columns")
    inputs, body = [f"%x: tensor<{rows}x{k}xbf16>", *ends], []
    results: List[Tuple[str, str]] = []
    for i, (m, name) in enumerate(group):
        weights, transposed = f"{stack}{m.N}x{k}xbf16", f"{stack}{k}x{m.N}xbf16, {columns}"
        inputs.append(f"%w{i}: tensor<{weights}>")
        body.append(f"  %t{i} = fp8moe.transpose %w{i} {order} : tensor<{weights}> -> tensor<{transposed}>")
        body.append(
            f"  %y{i} = fp8moe.{operation} %x, %t{i}{groups} precision <undecided, {_quote(name)}, forward> "
            f": tensor<{rows}x{k}xbf16>, tensor<{transposed}> -> tensor<{rows}x{m.N}xbf16>"
        )
        results.append((f"%y{i}", f"tensor<{rows}x{m.N}xbf16>"))
        body += [_pay("forward", f"%t{i}", f"tensor<{transposed}>", f"{i}_{j}", inputs, results) for j in range(paid)]
    return _function_ir(f"forward_{index}", inputs, body, results)


def _backward_ir(index: int, group: List[Tuple[Matmul, str]], rows: int, paid: int = 0) -> str:
    """A function with the gradients of these modules."""
    k, experts = group[0][0].K, group[0][0].experts
    operation, groups, ends = _operation(experts)
    inputs, body = [f"%x: tensor<{rows}x{k}xbf16>", *ends], []
    results: List[Tuple[str, str]] = []
    for i, (m, name) in enumerate(group):
        weights, grads = f"tensor<{f'{experts}x' if experts else ''}{m.N}x{k}xbf16>", f"tensor<{rows}x{m.N}xbf16>"
        inputs += [f"%w{i}: {weights}", f"%g{i}: {grads}"]
        body.append(
            f"  %d{i} = fp8moe.{operation} %g{i}, %w{i}{groups} precision <undecided, {_quote(name)}, dgrad> "
            f": {grads}, {weights} -> tensor<{rows}x{k}xbf16>"
        )
        body += [_pay("dgrad", f"%w{i}", weights, f"{i}_{j}", inputs, results) for j in range(paid)]
        transposed = f"tensor<{m.N}x{rows}xbf16, #columns>"
        body.append(f"  %t{i} = fp8moe.transpose %g{i} [1, 0] : {grads} -> {transposed}")
        body.append(
            f"  %v{i} = fp8moe.{operation} %t{i}, %x{groups} precision <undecided, {_quote(name)}, wgrad> "
            f": {transposed}, tensor<{rows}x{k}xbf16> -> {weights}"
        )
        results += [(f"%d{i}", f"tensor<{rows}x{k}xbf16>"), (f"%v{i}", weights)]
    return _function_ir(f"backward_{index}", inputs, body, results)


def _function_ir(name: str, inputs: List[str], body: List[str], results: List[Tuple[str, str]]) -> str:
    values, types = (", ".join(part) for part in zip(*results))
    lines = [f"func.func @{name}({', '.join(inputs)}) -> ({types}) {{", *body, f"  return {values} : {types}", "}"]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """A quoted string in MLIR's syntax."""
    escaped = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())
    return '"' + "".join(escaped) + '"'


_ALIASES = "#columns = #fp8moe.strided<[1, 0]>\n#expert_columns = #fp8moe.strided<[0, 2, 1]>\n"


def _option(name: str, value: str) -> str:
    if re.search(r"[\s,{}'\"]", value):
        raise ValueError(f"{name}: spaces, commas, braces and quotes cannot be in it, found {value!r}")
    return f" {name}={value}" if value else ""


def _decide(text: str, target: str, options: str) -> Dict[Tuple[str, str], Precision]:
    """The compiler's decisions, by name and use."""
    module = Module.parse(_ALIASES + text, "<the model>")
    module.run(f"builtin.module(fp8moe-attach-target{{chip={target}}},fp8moe-select-precision{{{options}}})")
    decided: Dict[Tuple[str, str], Precision] = {}
    for operation in module.walk():
        if isinstance(operation, (ops.LinearOp, ops.GroupedMatmulOp)):
            precision = operation.attributes["precision"]
            assert isinstance(precision, Precision)
            decided[precision.name, precision.use.value] = precision
    return decided


def decide_rows(matmul: Matmul, rows: Sequence[int], target: str, card: str = "") -> Dict[Tuple[str, str, int], bool]:
    """Whether the compiler chooses FP8 for experts, by kind, use (recipes.USES) and number of rows.

    "call" means that each call quantizes the weights. "kept" means that another FP8 matmul of the program reads the same
    quantized weights.
    """
    text, index = "", 0
    for count in rows:
        for kind in ("call", "kept"):
            group = [(matmul, f"{kind} {count}")]
            for function in (_forward_ir, _backward_ir):
                text += function(index, group, count, int(kind == "kept"))
            index += 1
    decided = _decide(text, target, f" for={card}" if card else "")
    uses = dict(zip(_USES, USES))
    found: Dict[Tuple[str, str, int], bool] = {}
    for (name, use), precision in decided.items():
        kind, _, count_text = name.partition(" ")
        if kind != _PAID:
            found[kind, uses[use], int(count_text)] = precision.choice.value == "fp8"
    return found


# --- The answer ---------------------------------------------------------------------


#: Names, in configurations of transformers and torchtitan, of the number of experts per token.
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k")


def _list_configs(config: Any) -> List[Any]:
    """`config` and its nested configurations; multimodal models keep one for text."""
    left = [config]
    try:
        left.append(config.get_text_config())
    except (AttributeError, ValueError):  # get_text_config raises ValueError if there are several, which are members
        pass
    configs: List[Any] = []
    while left:
        config = left.pop()
        if config is None or any(config is other for other in configs):
            continue
        configs.append(config)
        members = config if isinstance(config, Mapping) else getattr(config, "__dict__", {})
        left += [value for name, value in members.items() if str(name).endswith(("config", "args"))]
    return configs


def _experts_per_token(model: Any) -> int:
    """The number of experts per token in the model's configuration."""
    root = getattr(model, "config", None)
    # In transformers, whose configurations have a model_type, `top_k` is an option of sampling.
    names = [name for name in _PER_TOKEN if name != "top_k" or not hasattr(root, "model_type")]
    counts: Set[int] = set()
    for config in _list_configs(root):
        for name in names:
            found = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
            each = found if isinstance(found, (list, tuple)) else [found]  # some configurations list one number per layer
            counts.update(int(count) for count in each if isinstance(count, Integral) and not isinstance(count, bool))
    counts = {count for count in counts if count > 0}
    if len(counts) == 1:
        return counts.pop()
    wanted = "give expert_rows, how many rows all experts of a layer get together: the tokens times the experts of each token"
    if counts:
        numbers = ", ".join(map(str, sorted(counts)))
        raise ValueError(f"the model's configuration has different numbers of experts of each token, {numbers}; {wanted}")
    raise ValueError(
        f"the model has experts, but {'no configuration' if root is None else 'its configuration does not say'} "
        f"how many of them a token goes to (as {', '.join(names)}); {wanted}"
    )


def _count_rows(model: Any, matmuls: Iterable[Matmul], tokens: int, expert_rows: Optional[int]) -> Optional[int]:
    """Rows of all experts of a layer together; None if there are no experts."""
    most_experts = max(m.experts for m in matmuls)
    if not most_experts:
        return None
    if expert_rows is not None:
        return expert_rows
    return tokens if most_experts == 1 else tokens * _experts_per_token(model)


def advise(
    model: Union[Any, Iterable[Union[Matmul, Tuple[Any, ...]]]],
    tokens: int = 16384,
    target: str = "sm_90a",
    *,
    expert_rows: Optional[int] = None,
    recipe: str = "rowwise",
    policy: str = "cost",
    filter_fqns: Sequence[str] = (),
    card: str = "",
    microbatches: int = 1,
) -> Advice:
    """Predicts which matmuls of a model are worth FP8 on a GPU that trains `tokens` at once. It takes seconds, and no torch.

    `model` is a torch module, also on the device "meta", whose linear layers and experts are found. It may also be a list of
    (name, N, K) and (name, N, K, experts). `expert_rows` is the number of rows of all experts of a layer together. The default is
    the tokens times the number of experts per token in the model's configuration. `recipe`, `policy` and `filter_fqns` are options of
    fp8moe-select-precision (docs/users/precision.md). `card` is the product whose times decide, such as "h100", by default that of
    the target. `microbatches` share weights that are quantized once; times are for one of them.

    Raises ValueError for impossible sizes, and for more than compiler.MOST_TOKENS tokens or rows. Raises ValueError for experts whose
    number per token is neither in the configuration nor given by `expert_rows`. Raises CompilerError for an unknown target,
    recipe or policy.
    """
    filters = [filter_fqns] if isinstance(filter_fqns, str) else list(filter_fqns)
    if not all(filters):
        raise ValueError("filter_fqns: expected filters that have text, found an empty one, which is in every name")
    if not isinstance(tokens, Integral) or not isinstance(expert_rows, (Integral, type(None))):
        raise TypeError(f"expected whole numbers of tokens and rows, found {tokens!r} and {expert_rows!r}")
    if not isinstance(microbatches, Integral) or not 1 <= microbatches <= _MOST_MICROBATCHES:
        raise ValueError(f"microbatches: expected 1 to {_MOST_MICROBATCHES}, found {microbatches!r}")
    if tokens < 1 or (expert_rows is not None and expert_rows < 1):
        raise ValueError(f"expected at least one token and one row, found {tokens} and {expert_rows}")
    matmuls = _read(model)
    rows = _count_rows(model, matmuls, tokens, expert_rows)
    require_modelled("tokens", tokens)
    require_modelled("expert_rows", rows or 0)
    groups = list(_group_siblings(_merge_layers(matmuls, filters)))
    options = _option("recipe", recipe) + _option("policy", policy) + _option("for", card)
    if filters:
        options += " filter-fqns=" + ",".join(_option("filter_fqns", text).partition("=")[2] for text in filters)
    text = ""
    for index, group in enumerate(groups):
        of_group = rows if rows and group[0][0].experts else tokens
        text += _forward_ir(index, group, of_group, microbatches - 1) + _backward_ir(index, group, of_group, microbatches - 1)
    decided = _decide(text, target, options)
    lines = []
    for group in groups:
        for matmul, name in group:
            for use in _USES:
                p = decided[name, use]
                bf16_us, fp8_us = (ns / 1e3 if ns else None for ns in (p.bf16_ns, p.fp8_ns))
                lines.append(MatmulAdvice(matmul, use, p.choice.value, bf16_us, fp8_us, p.reason))
    return Advice(tuple(lines), tokens, card or target, recipe, policy, rows)
