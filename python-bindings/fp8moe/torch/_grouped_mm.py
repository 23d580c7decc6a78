# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The grouped matmul of mixtures of experts, in FP8 and differentiable."""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true

from .. import programs, recipes
from .._library import InvalidArgumentError, UnsupportedError
from ._bias import add_bias, check_bias
from ._constant import assume_constant_result
from ._ops import Formula, Op, differentiable, load_ops
from ._weights import Maker, QuantizedWeights, find_gathered, gathered


def grouped_mm(
    x: torch.Tensor,
    weights: Union[torch.Tensor, QuantizedWeights],
    offsets: Optional[torch.Tensor] = None,
    *,
    offs: Optional[torch.Tensor] = None,
    bias: Optional[torch.Tensor] = None,
    out_dtype: Optional[torch.dtype] = None,
    recipe: recipes.Recipe = "auto",
    main_grad: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Multiplies each group of rows with the matrix of its expert, in FP8 where that is faster.

    Row m of group g of the result is `x[m] @ weights[g]`. Group g consists of the rows from `offsets[g - 1]`
    (0 for the first) to `offsets[g]`, and may be empty. Rows past the last offset, and their gradients, are zero.

    Args:
        x: bf16 [M, K], rows sorted by expert. On GPUs K and N must be multiples of 16.
        weights: bf16 [E, K, N], dense or a transposed view of a dense [E, N, K]; other layouts are copied. Also the result of
            `quantize_weights`.
        offsets: i32 [E], ascending, at most M, on the device of x. i64 is converted on the device, modulo 2^32, without waiting.
        offs: alias of offsets, the name in torch.nn.functional.grouped_mm.
        bias: [E, N], added to the rows of each group, but not to rows past the last offset.
        out_dtype: type of the result, whose values have the precision of bf16: torch.bfloat16, torch.float16 or torch.float32.
        recipe: "auto" chooses FP8 or bf16 by the number of rows, separately for each use of the weights, as the compiler predicts.
            Alternatives are a mix of fp8moe.recipes.MIXES, such as "rowwise" (FP8 throughout), "forward_only" or "bf16". Row counts
            from which on uses are FP8 may also be given, such as "forward>=16384 grad_weights>=8192".
        main_grad: f32 [E, K, N] with the layout of weights. The backward adds the gradient of weights to it in place, without
            rounding to bf16, and weights themselves get no gradient. torch.compile breaks the graph here.

    Returns:
        bf16 [M, N], row-major. The gradient of weights has their layout.

    Autocast casts x and weights to bf16, and the result to autocast's type; float16 then limits the range of the result. The first
    call for K, N and E compiles its programs, or finds them in the cache (fp8moe.cache).

    Raises:
        TypeError: x, weights, offsets or main_grad are no tensors.
        ValueError: shapes, types, layouts, addresses or devices do not fit, or weights have changed since they were quantized.
        fp8moe.cache.CacheError: the programs are missing, and there is no compiler.
        fp8moe.CompilerError: the chip of x has no kernels for these sizes.
    """
    if offs is not None:
        if offsets is not None:
            raise TypeError("grouped_mm: both offsets and offs are given, expected one of them")
        offsets = offs
    if out_dtype is not None and out_dtype not in _OUT_DTYPES:
        raise ValueError(f"grouped_mm: out_dtype is {out_dtype!r}, expected one of {', '.join(map(str, _OUT_DTYPES))}, or None")
    offsets = convert_offsets(offsets)
    if bias is not None:
        _require_local_tensor("grouped_mm", "x", x, "[M, K]")
        _require_local_tensor("grouped_mm", "bias", bias, "[E, N], or None")
        shape = find_shape(weights)
        if shape is not None:
            check_bias("grouped_mm", "bias", bias, "weights", shape, x.device)
    result = multiply_seen(x, weights, offsets, recipe, main_grad, GROUPED_MM)
    if bias is not None:
        result = add_bias(result, bias, offsets)
    return to_autocast(result) if out_dtype is None else result.to(out_dtype)


def convert_offsets(offsets: Any) -> Any:
    """Converts i64 offsets, as torch.cumsum returns them, to i32. Values wrap modulo 2^32, since the host reads none."""
    is_long = isinstance(offsets, torch.Tensor) and offsets.dtype == torch.int64
    return offsets.to(torch.int32) if is_long else offsets


def to_autocast(result: torch.Tensor) -> torch.Tensor:
    """Casts a result to autocast's type, as torch's own matmuls do."""
    device = result.device.type
    return result.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else result


_Weights = Union[torch.Tensor, QuantizedWeights]
#: Types that `out_dtype` accepts.
_OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def find_shape(weights: Any) -> Optional[torch.Size]:
    """The shape of weights [E, K, N]; None for operands that grouped_mm will reject."""
    tensor = weights.weights if isinstance(weights, QuantizedWeights) else weights
    return tensor.shape if isinstance(tensor, torch.Tensor) and not tensor.is_nested and tensor.dim() == 3 else None


class Names(NamedTuple):
    """Names, in messages, of a multiplying function and of its arguments."""

    function: str
    x: str
    weights: str
    main_grad: str


GROUPED_MM = Names("grouped_mm", "x", "weights", "main_grad")


def multiply_seen(
    x: torch.Tensor, weights: _Weights, offsets: torch.Tensor, recipe: str, main_grad: Optional[torch.Tensor], names: Names
) -> torch.Tensor:
    """grouped_mm, also as a part of another function, with calls of `observers`."""
    if main_grad is None:
        result = multiply(x, weights, offsets, recipe, names)
    else:
        from ._main_grad import multiply_adding

        result = multiply_adding(x, weights, offsets, recipe, main_grad, names)
    if not torch.compiler.is_compiling() and observers:
        mix = recipe
        if recipe not in FIXED:
            mix = _auto.choose(x.shape[0], find_gathered(weights, "rowwise") or weights, recipe)
        if any(recipes.MIXES.get(mix, ())):
            observers[-1](x, weights, offsets, result, mix)
    return result


#: Callbacks of `inspect` after each call; only the last one runs.
observers: List[Callable[[torch.Tensor, _Weights, torch.Tensor, torch.Tensor, str], None]] = []


def multiply(
    x: torch.Tensor, weights: _Weights, offsets: torch.Tensor, recipe: str, names: Names = GROUPED_MM
) -> torch.Tensor:
    """grouped_mm without calls of `observers`."""
    if isinstance(weights, torch.Tensor) and recipe != programs.BF16 and _kept.reads_gathered():
        recipes.check(names.function, recipe)
        if _auto.has_kernels(weights.device, *weights.shape[-2:]):
            return _kept.multiply_gathered(x, weights, offsets, recipe, names)
    if not isinstance(recipe, str) or recipe not in FIXED:
        if gathered and not torch.compiler.is_compiling():
            weights = find_gathered(weights, "rowwise") or weights
        return _auto.multiply_by_rows(x, weights, offsets, recipe, names)
    if not torch.compiler.is_compiling():
        if gathered:
            weights = find_gathered(weights, recipe) or weights
        again = _multiply_again(x, weights, offsets, recipe)
        if again is not None:
            return again
    if recipe == programs.BF16 and isinstance(weights, QuantizedWeights):
        weights = take_weights(weights, names)
    call = resolve(x, weights, offsets, recipe, names)
    with_columns = keeps_columns(call.x, call.weights, recipe)
    op = _find_op(f"{call.which}_with_columns" if with_columns else call.which, call.weights, call.layout, recipe)
    results = op(call.x, call.weights, *call.forms, call.offsets)
    _remember(call.which, call.weights, call.layout, recipe)
    result: torch.Tensor = results[0] if with_columns else results
    return result


def take_weights(weights: QuantizedWeights, names: Names) -> torch.Tensor:
    """The weights themselves, for a call in bf16."""
    if not torch.compiler.is_compiling() and torch.is_grad_enabled():
        weights.require_connected(f"{names.function}: {names.weights}")
    return weights.weights


#: Recipes that use the same programs for any number of rows.
FIXED = frozenset((*programs.RECIPES, programs.BF16))


class Call(NamedTuple):
    """Tensors that a program accepts, and the name of the program."""

    which: str
    layout: str
    x: torch.Tensor
    weights: torch.Tensor
    #: Cached quantized copies of the weights.
    forms: Sequence[torch.Tensor]
    offsets: torch.Tensor


def resolve(x: torch.Tensor, weights: _Weights, offsets: torch.Tensor, recipe: str, names: Names) -> Call:
    """Checks the arguments of grouped_mm, casts them under autocast, and copies layouts that programs do not accept."""
    function = names.function
    _require_local_tensor(function, names.x, x, "[M, K]")
    _require_local_tensor(function, "offsets", offsets, "[E]")
    _require_known_device(function, names.x, x)
    is_autocast = torch.is_autocast_enabled(x.device.type)
    forms: Sequence[torch.Tensor] = ()
    if isinstance(weights, QuantizedWeights):
        which, tensor = "kept_grouped_mm", weights.weights
    else:
        _require_local_tensor(function, names.weights, weights, "[E, K, N]")
        which, tensor = "grouped_mm", weights.to(torch.bfloat16) if is_autocast else weights
    if is_autocast:
        x = x.to(torch.bfloat16)
    _check(x, tensor, offsets, names)
    if isinstance(weights, QuantizedWeights):
        if recipe != weights.recipe:
            raise ValueError(
                f"{function}: recipe is {recipe!r}, but {names.weights} were quantized by recipe {weights.recipe!r}; pass "
                f"recipe={weights.recipe!r} here, or quantize_weights(..., recipe={recipe!r})"
            )
        if not torch.compiler.is_compiling():
            weights.require_current(f"{function}: {names.weights}")
            if torch.is_grad_enabled():
                weights.require_connected(f"{function}: {names.weights}")
        forms = weights.take_forms()
    tensor, layout = _lay_out(tensor)
    return Call(which, layout, x.contiguous(), tensor, forms, offsets.contiguous())


#: Rows per expert from which on columns take no more bytes than x, although half of them may be padding.
_LEAST_ROWS = programs.COLUMNS_PADDING


@functools.lru_cache(maxsize=None)
def find_cached_bytes(device: torch.device) -> Optional[int]:
    """Bytes of a GPU's L2 cache that survive until a second read; None on the CPU.

    The L2 cache has two halves, each for one half of the chip, so that shared data occupies both. Kernels that quantize
    along both axes use the same limit.
    """
    if chip_of(device) == "cpu":  # chip_of raises for devices without kernels
        return None
    l2_bytes: int = torch.cuda.get_device_properties(device.index or 0).L2_cache_size
    return l2_bytes // 2


@assume_constant_result
def _constant_cached_bytes(device: torch.device) -> Optional[int]:
    """As `find_cached_bytes`. It runs while Dynamo traces, and leaves a number in the graph."""
    return find_cached_bytes(device)


@assume_constant_result
def is_exporting() -> bool:
    """As torch.compiler.is_exporting, which Dynamo in torch 2.11 evaluates to true in all traced code."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


def keeps_columns(x: torch.Tensor, weights: torch.Tensor, recipe: str) -> bool:
    """Whether the forward also quantizes x columnwise, so that the backward does not need x itself."""
    if recipe != "rowwise" or not weights.requires_grad or not torch.is_grad_enabled():
        return False
    if is_exporting():  # an exported program has no backward, and must not get bounds on M
        return False
    M, (E, K, _) = x.shape[0], weights.shape
    # One launch quantizes rows and columns, and reads groups that fit the cache once. For longer groups it saves only half of the second
    # read. That is not worth the memory of columns, since other code may hold x as well.
    cached = _constant_cached_bytes(x.device)
    has_rows, is_cached = M >= _LEAST_ROWS * E, cached is None or 2 * M * K <= cached * E
    if torch.compiler.is_compiling():  # the number of rows may be data, as in x[mask]; such calls keep no columns
        return bool(guard_or_false(has_rows) and guard_or_false(is_cached))
    return bool(has_rows and is_cached)


#: Operators without and with columns, by function, recipe, and the layout and device of the weights in earlier calls.
_known: Dict[Tuple[Any, ...], Tuple[Op, Op]] = {}


def _remember(which: str, weights: torch.Tensor, layout: str, recipe: str) -> None:
    if torch.compiler.is_compiling() or type(weights) is not torch.Tensor:  # sizes of fake tensors may be symbols
        return
    key = (which, recipe, weights.shape, weights.stride(), weights.device)
    if key in _known:
        return
    E, K, N = weights.shape
    chip = chip_of(weights.device)
    op = make_op(K, N, E, layout, recipe, chip, which)
    _known[key] = (op, op if recipe != "rowwise" else make_op(K, N, E, layout, recipe, chip, f"{which}_with_columns"))


def _multiply_again(x: torch.Tensor, weights: _Weights, offsets: torch.Tensor, recipe: str) -> Optional[torch.Tensor]:
    """The result if an earlier call had such weights and these tensors fit as they are; otherwise None.

    Eager steps spend their time here, so properties that equal those of an earlier call are not checked again.
    """
    try:
        if isinstance(weights, QuantizedWeights):
            if recipe != weights.recipe:
                return None
            if not weights.is_current() or (torch.is_grad_enabled() and weights.is_cut_off()):
                return None
            tensor, which, inputs = weights.weights, "kept_grouped_mm", (x, weights.weights, *weights.take_forms(), offsets)
        else:
            tensor, which, inputs = weights, "grouped_mm", (x, weights, offsets)
        known = _known.get((which, recipe, tensor.shape, tensor.stride(), tensor.device))
        if known is None:
            return None
        with_columns = keeps_columns(x, tensor, recipe)
    except (RuntimeError, AttributeError, TypeError, IndexError):  # no strides, no tensor, or a symbolic size
        return None
    op = known[with_columns]
    results = op.call_directly(inputs, _fit)
    if results is None:
        if not _fit(inputs):
            return None
        # Modes and profilers then see this operator alone, and not the checks above.
        results = op.overload(*inputs)
    result: torch.Tensor = results[0] if with_columns else results
    return result


def _fit(inputs: Tuple[torch.Tensor, ...]) -> bool:
    """Whether a program accepts these tensors as they are. `resolve` reports what is wrong with them, by name."""
    x, weights, offsets = inputs[0], inputs[1], inputs[-1]
    if not isinstance(x, torch.Tensor) or not isinstance(offsets, torch.Tensor):  # `resolve` reports it
        return False
    if x.dtype != torch.bfloat16 or weights.dtype != torch.bfloat16:  # autocast may cast it
        return False
    try:
        for tensor in (x, weights, offsets):
            require_local("grouped_mm", "", tensor)
        _check(x, weights, offsets, GROUPED_MM)
    except ValueError:
        return False
    return bool(x.is_contiguous() and offsets.is_contiguous())


def quantize_weights(weights: torch.Tensor, *, recipe: recipes.Recipe = "rowwise") -> QuantizedWeights:
    """Quantizes weights once for all calls of grouped_mm and experts until they change.

    Uses are the microbatches of a step, recomputation in checkpointing, and inference.

        weights = quantize_weights(parameter.transpose(-2, -1))
        for x, offsets in microbatches:
            grouped_mm(x, weights, offsets)...

    Results and gradients equal those of `weights` themselves, bit for bit. The quantized copies take two bytes per weight, or one
    with recipe "forward_only". Gradients go to `weights`. After each optimizer step call it again, or call `refresh()` on the
    result, which keeps the memory of the copies.

    Calls raise an error if the weights have changed. These changes are detected:

    * a step of a torch.optim.Optimizer on their memory, an in-place operation, and `parameter.data = other`;
    * writes that bypass autograd, by collectives, `parameter.data.copy_`, kernels and other libraries. Each call compares 2^18 elements
      of the weights. GPUs and graphs do not wait for that comparison: such a call returns NaN, and on GPUs the next one raises.

    These changes are not detected:

    * single elements of more than 2^18 weights;
    * changes of a parameter of which the caller has passed a copy (`parameter.bfloat16()`);
    * replacement of the module's parameter (`load_state_dict(assign=True)`).

    The result cannot be copied (copy.deepcopy) or saved: copy or save the weights, and quantize those.

    Wrapping it in torch.no_grad gains nothing, as the copies are detached already. A view made there, such as
    `parameter.transpose(-2, -1)`, does not lead to the parameter. Outside of torch.compile, calls that would lose its gradient
    raise an error, except under torch.no_grad, as in inference.

    Weights that FSDP2 has quantized because of `keep_gathered` are not quantized again.

    Args:
        weights: bf16 [E, K, N], as grouped_mm takes them; autocast casts other types.
        recipe: as for grouped_mm.

    Raises:
        TypeError: weights are no tensor.
        ValueError: shape or type do not fit. Others as grouped_mm.
    """
    recipes.check("quantize_weights", recipe)
    if recipe not in programs.RECIPES:
        ranges = recipes.parse(recipe)
        if ranges is not None and ranges.forward is None and ranges.grad_x is None:
            raise ValueError(f"quantize_weights: recipe is {recipe!r}, which reads weights in bf16 only; pass the weights themselves")
        recipe = "rowwise"
    _require_local_tensor("quantize_weights", "weights", weights, "[E, K, N]")
    _require_known_device("quantize_weights", "weights", weights)
    kept = None if torch.compiler.is_compiling() or not gathered else find_gathered(weights, recipe)
    if kept is not None:
        return kept
    derived = weights.to(torch.bfloat16) if torch.is_autocast_enabled(weights.device.type) else weights
    _check_tensor("quantize_weights", "weights", derived, 3, torch.bfloat16, "[E, K, N]")
    derived, layout = _lay_out(derived)
    forms = _find_op("quantize_weights", derived, layout, recipe)(derived.detach())
    maker = None if torch.compiler.is_compiling() else _make_maker(derived, layout, recipe)
    return QuantizedWeights(derived, recipe, forms, weights, maker)


def _make_maker(weights: torch.Tensor, layout: str, recipe: str) -> Maker:
    E, K, N = weights.shape
    op = make_op(K, N, E, layout, recipe, chip_of(weights.device), "quantize_weights")
    return Maker(lambda source: _lay_out(source.to(torch.bfloat16))[0], op.overload, op.write)


def require_tensor(function: str, name: str, tensor: Any, shape: str) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{function}: {name} is of type {type(tensor).__name__}, expected a torch.Tensor {shape}")
    require_dense(function, name, tensor)


def _require_local_tensor(function: str, name: str, tensor: Any, shape: str) -> None:
    require_tensor(function, name, tensor, shape)
    require_local(function, name, tensor)


def require_dense(function: str, name: str, tensor: torch.Tensor) -> None:
    """Raises ValueError for a nested tensor. It comes before uses of the shape, which some nested tensors lack."""
    if tensor.is_nested:
        raise ValueError(
            f"{function}: {name} is a nested tensor, expected a dense one: the rows of all groups are torch.cat(nested.unbind()), with the "
            "ends of groups as offsets, and matrices of one size torch.stack(nested.unbind())"
        )


def require_local(function: str, name: str, tensor: torch.Tensor) -> None:
    if hasattr(tensor, "to_local"):
        raise ValueError(f"{function}: {name} is a {type(tensor).__name__}, expected a plain tensor; pass {name}.to_local()")


def _require_known_device(function: str, name: str, tensor: torch.Tensor) -> None:
    """Raises InvalidArgumentError for the device "meta". It comes before other queries about the device."""
    if tensor.device.type == "meta":
        raise InvalidArgumentError(
            f"{function}: {name} is on 'meta', expected 'cpu' or 'cuda'; shapes without data are found with fake tensors "
            "(torch._subclasses.FakeTensorMode), and fp8moe.torch.prepare takes models on 'meta'"
        )


def _check_tensor(function: str, name: str, tensor: torch.Tensor, rank: int, dtype: torch.dtype, shape: str) -> None:
    if tensor.layout is not torch.strided:
        raise ValueError(f"{function}: {name} has layout {tensor.layout}, expected torch.strided; call .to_dense()")
    if tensor.dim() != rank:
        raise ValueError(f"{function}: {name} has shape {tuple(tensor.shape)}, expected {shape}{_suggest_rank(tensor, rank)}")
    if tensor.dtype != dtype:
        raise ValueError(f"{function}: {name} is {tensor.dtype}, expected {dtype}; cast it with .to({dtype})")


def _suggest_rank(tensor: torch.Tensor, rank: int) -> str:
    """Advice on the missing operation, if one is likely."""
    if rank == 2 and tensor.dim() > 2:
        return "; call .flatten(0, -2)"
    if rank == 2 and tensor.dim() == 1:
        return "; a single row is passed as [None]"
    if rank == 3 and tensor.dim() == 1 and tensor.numel() == 0:
        return "; ZeRO-3 of DeepSpeed leaves parameters empty that it has divided, outside of their module's forward"
    if rank == 3 and tensor.dim() == 2:
        return "; the matrix of a single expert is passed as [None]"
    return ""


def _check(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, names: Names) -> None:
    function = names.function
    for name, tensor, rank, dtype, shape in (
        (names.x, x, 2, torch.bfloat16, "[M, K]"),
        (names.weights, weights, 3, torch.bfloat16, "[E, K, N]"),
        ("offsets", offsets, 1, torch.int32, "[E]"),
    ):
        _check_tensor(function, name, tensor, rank, dtype, shape)
        if tensor.device != x.device:
            raise ValueError(f"{function}: {name} is on {tensor.device}, but {names.x} is on {x.device}; move it there")
    if x.shape[1] != weights.shape[1]:
        raise ValueError(
            f"{function}: {names.x} has shape {tuple(x.shape)} and {names.weights} {tuple(weights.shape)}: K, their dimension 1, "
            f"must be equal; weights [E, N, K] are passed as {names.weights}.transpose(-2, -1)"
        )
    if offsets.shape[0] != weights.shape[0]:
        raise ValueError(
            f"{function}: there are {offsets.shape[0]} offsets and {weights.shape[0]} experts; expected the end of each "
            "expert's rows, without a leading 0"
        )


def find_layout(weights: torch.Tensor) -> str:
    """The layout of programs for these weights, one of fp8moe.programs.WEIGHTS."""
    # Strides tell whether the transpose is contiguous. Making it would be visible to dispatch modes.
    expected = 1
    for dim in (1, 2, 0):
        if weights.shape[dim] != 1 and weights.stride(dim) != expected and weights.numel() > 0:
            return "KN"
        expected *= weights.shape[dim]
    return "NK"


def _lay_out(weights: torch.Tensor) -> Tuple[torch.Tensor, str]:
    """The weights in a layout that programs accept, and the name of that layout."""
    layout = find_layout(weights)
    return (weights if layout == "NK" else weights.contiguous()), layout


# These functions run while Dynamo traces, so that the graph contains only the operators.
@assume_constant_result
def _name_op(which: str, K: int, N: int, E: int, layout: str, recipe: str, device: torch.device) -> str:
    return make_op(K, N, E, layout, recipe, chip_of(device), which).name


@assume_constant_result
def _name_part(name: str, K: int, N: int, E: int, layout: str, device: torch.device, kept: bool) -> str:
    return list_ops(K, N, E, layout, "rowwise", chip_of(device), kept)[name].name


def _find_op(which: str, weights: torch.Tensor, layout: str, recipe: str) -> Any:
    # operator.index turns sizes that Dynamo may treat as symbols into numbers.
    E, K, N = (operator.index(size) for size in weights.shape)
    return getattr(torch.ops.fp8moe, _name_op(which, K, N, E, layout, recipe, weights.device))


def _find_part(name: str, weights: torch.Tensor, kept: bool) -> Any:
    """One of programs.PARTS, for code that Dynamo traces."""
    E, K, N = (operator.index(size) for size in weights.shape)
    return getattr(torch.ops.fp8moe, _name_part(name, K, N, E, find_layout(weights), weights.device, kept))


@functools.lru_cache(maxsize=None)
def make_op(K: int, N: int, E: int, layout: str, recipe: str, chip: str, which: str = "grouped_mm") -> Op:
    """A differentiable operator of one artifact: `grouped_mm`, `kept_grouped_mm`, or `quantize_weights`.

    The variants `..._with_columns` of the first two also return the columns of x.
    """
    ops = list_ops(K, N, E, layout, recipe, chip, not which.startswith("grouped_mm"))
    if which == "quantize_weights":
        return ops[which]
    with_columns = which.endswith("_with_columns")
    forward, *names = (*programs.COLUMNS, "grad_x") if with_columns else programs.PROGRAMS
    # The gradient of weights comes first, so that x is freed before the gradient of x is allocated.
    backwards: List[Union[Op, Formula]] = [ops[name] for name in reversed(names) if name in ops]
    if "multiply_grad_x" in ops:
        backwards.insert(0, join_parts(ops, with_columns))
    return differentiable(ops[forward], backwards)


@functools.lru_cache(maxsize=None)
def list_ops(K: int, N: int, E: int, layout: str, recipe: str, chip: str, kept: bool) -> Dict[str, Op]:
    request = programs.grouped_mm_request(K, N, E, chip, weights=layout, recipe=recipe, kept=kept)
    return load_ops(request, programs.list_programs(K, N, E, recipe, kept=kept))


@functools.lru_cache(maxsize=None)
def list_adding_ops(K: int, N: int, E: int, layout: str, recipe: str, chip: str) -> Dict[str, Op]:
    """The programs of `programs.add_grad_weights`."""
    request = programs.add_grad_weights_request(K, N, E, chip, weights=layout, recipe=recipe)
    return load_ops(request, programs.list_adding(recipe))


def forget_operators() -> None:
    """Drops all cached operators; for tests."""
    make_op.cache_clear()
    list_ops.cache_clear()
    list_adding_ops.cache_clear()
    _known.clear()
    _auto.forget()


class _Parts(NamedTuple):
    """Both gradients by programs.PARTS.

    Each part is an operator, so that its operands are freed after their last use. Inductor, which knows their sizes, may reorder them.
    """

    #: None if the forward has saved columns of x.
    quantize_x: Optional[Op]
    quantize_grad_y: Op
    #: None if the weights are quantized already.
    quantize_weights_n: Optional[Op]
    multiply_grad_x: Op
    multiply_grad_weights: Op
    #: Programs that compute one gradient each.
    grad_x: Op
    grad_weights: Op

    def __call__(self, grad_y: torch.Tensor, *tensors: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """The other tensors are x, or its columns and scales; weights, or their quantized copy and scales; and offsets."""
        of_x = 1 if self.quantize_x else 2
        columns, weights, offsets = tensors[:of_x], tensors[of_x:-1], tensors[-1]
        if type(grad_y) is torch.Tensor and _is_cached(grad_y):
            # Reading cached data twice takes less time than calling three more operators. Sizes in a graph may be symbols.
            return self.grad_x(grad_y, *weights, offsets), self.grad_weights(grad_y, *columns, offsets)
        if self.quantize_x:
            columns = self.quantize_x(*columns, grad_y, offsets)
        rows, row_scales, *grad_columns = self.quantize_grad_y(grad_y, offsets)

        def multiply_grad_x() -> torch.Tensor:
            forms = self.quantize_weights_n(*weights, row_scales) if self.quantize_weights_n else weights
            grad_x: torch.Tensor = self.multiply_grad_x(rows, row_scales, *forms, offsets)
            return grad_x

        if gives_x_first(grad_y.shape[0], weights[0].shape, frees_columns=self.quantize_x is not None):
            grad_x = multiply_grad_x()
            del rows, row_scales
            return grad_x, self.multiply_grad_weights(*grad_columns, *columns, offsets)
        grad_weights = self.multiply_grad_weights(*grad_columns, *columns, offsets)
        del grad_columns, columns
        return multiply_grad_x(), grad_weights


def _is_cached(tensor: torch.Tensor) -> bool:
    cached = _constant_cached_bytes(tensor.device)
    return cached is None or tensor.nbytes <= cached


def gives_x_first(M: int, sizes: Sequence[int], **held: bool) -> bool:
    """Whether computing the gradient of x first minimizes peak memory. True for a symbolic M."""
    x_first, weights_first = estimate_bytes(M, sizes, **held)
    return not statically_known_true(weights_first < x_first)


def estimate_bytes(
    M: int, sizes: Sequence[int], *, makes_form: bool = True, frees_columns: bool = True, sums: bool = False
) -> Tuple[int, int]:
    """Peak bytes if grad_x is computed first, and if grad_weights is.

    Operands take one byte per element, gradients two. `makes_form`: the weights are quantized along N in between. `frees_columns`:
    columns of x are freed after use, unlike those that autograd has saved. `sums`: rows of grad_x are summed by token immediately.
    """
    E, K, N = sizes
    weights, rows_k, rows_n = E * K * N, M * K, M * N
    form = weights if makes_form else 0
    x_first = torch.sym_max(2 * rows_n + 3 * rows_k + form, rows_n + (1 if sums else 3) * rows_k + 2 * weights)
    weights_first = torch.sym_max(2 * rows_n + rows_k + 2 * weights, rows_n + (2 if frees_columns else 3) * rows_k + 2 * weights + form)
    return x_first, weights_first


def join_parts(ops: Dict[str, Op], with_columns: bool) -> Formula:
    grad_weights = "grad_weights_from_columns" if with_columns else "grad_weights"
    parts: Any = _Parts(*(ops.get(name) for name in (*programs.PARTS, "grad_x", grad_weights)))  # type: ignore[arg-type]
    if with_columns:
        parts = parts._replace(quantize_x=None)
    columns = ("x_columns", "x_scales") if with_columns else ("x",)
    operand = ("weights",) if parts.quantize_weights_n else ("weights_n", "scales_n")
    return Formula("backward", ("grad_y", *columns, *operand, "offsets"), ("grad_x", "grad_weights"), parts)


@functools.lru_cache(maxsize=None)
def chip_of(device: torch.device) -> str:
    """The compiler's name of a device's chip."""
    if device.type == "cpu":
        return "cpu"
    if device.type == "cuda":
        index = device.index or 0
        if not torch.cuda.is_available():
            raise UnsupportedError(
                "device 'cuda': torch finds no GPU here, so the chip to compile for is not known; 'python -m fp8moe prepare' "
                "compiles for a chip that it is told"
            )
        if torch.version.hip:
            name: str = torch.cuda.get_device_properties(index).gcnArchName
            return name.split(":")[0]
        major, minor = torch.cuda.get_device_capability(index)
        if (major, minor) != (9, 0):
            raise UnsupportedError(
                f"cuda:{index} is {torch.cuda.get_device_name(index)} of compute capability {major}.{minor}, and fp8moe's kernels "
                "need 9.0 (H100, H200); use bf16 there, as torch.nn.functional.grouped_mm"
            )
        return "sm_90a"
    raise UnsupportedError(f"grouped_mm: x is on '{device.type}', expected 'cpu' or 'cuda'")


def e4m3_of(device: torch.device) -> torch.dtype:
    """The element type of !fp8moe.e4m3 on a device (F1 of docs/reference/semantics.md)."""
    is_fnuz = chip_of(device) in ("gfx942", "cpu-fnuz")
    return torch.float8_e4m3fnuz if is_fnuz else torch.float8_e4m3fn


# Imported last, because these modules import this one.
from . import _auto, _kept  # noqa: E402
