# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layers whose forward and gradients multiply in FP8."""

from __future__ import annotations

import functools
import math
import warnings
import weakref
from numbers import Integral
from typing import Any, Callable, Dict, List, Literal, NamedTuple, Optional, Set, Tuple, Type

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from .. import cache, linear_programs, recipes
from .._library import Error
from ._auto import has_kernels, is_trained
from ._constant import assume_constant_result
from ._grouped_mm import chip_of, is_exporting, observers
from ._kept import as_kept_op, find_or_make
from ._linear_eager import KnownCalls, Programs, multiply_again
from ._ops import Op, differentiable, is_transformed, load_ops
from ._weights import Maker, QuantizedWeights, read_version

#: Number of rows below which a layer stays in bf16, because quantizing its weights costs more than FP8 gains. On an H200, `advise`
#: predicts a gain with 1024 rows for layers of Llama3 8B from 4096 x 4096 on. With 256 rows it predicts none.
LEAST_ROWS = 1024

#: GPU kernels need N and K to be multiples of this.
MULTIPLE = 16


class Linear(torch.nn.Linear):
    """torch.nn.Linear in FP8, with the same parameters and names; `convert` makes them from the layers of a model.

    The input has any number of leading dimensions, whose rows are quantized together. Weights are quantized in each forward and each
    backward, unless `keep` is set. The layer falls back to torch's linear, in bf16:

    * in evaluation (`model.eval()`), and for fewer than `least_rows` rows;
    * if a width is no multiple of 16, and in exported programs;
    * on GPUs without kernels, which is logged once;
    * if the layer does not compute in bf16, with one warning in training.

    Args:
        recipe: one of fp8moe.programs.RECIPES, or "bf16".
        least_rows: number of rows below which the layer stays in bf16.
        keep: "step" quantizes weights once between two optimizer steps, if they are a bf16 parameter. It takes two more bytes per weight.
        Others as for torch.nn.Linear.
    """

    fp8moe_recipe: recipes.LinearRecipe = "rowwise"
    fp8moe_least_rows: int = LEAST_ROWS
    fp8moe_shared: Optional["SharedInput"] = None
    fp8moe_known: Optional[KnownCalls] = None
    fp8moe_keep: Optional[Literal["step"]] = None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        recipe: recipes.LinearRecipe = "rowwise",
        least_rows: int = LEAST_ROWS,
        keep: Optional[Literal["step"]] = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        check_options("Linear", recipe, keep)
        check_counts("Linear", 0, least_rows=least_rows)
        self.fp8moe_recipe, self.fp8moe_least_rows, self.fp8moe_keep = recipe, least_rows, keep

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # torch.compiler.is_compiling comes first, so that graphs have no guards on the other conditions.
        if not torch.compiler.is_compiling() and self.fp8moe_known is not None and self.training and not observers:
            result = multiply_again(self, input, self._parameters.get("weight"), self._parameters.get("bias"))
            if result is not None:
                return result
        if _is_sharded(self.weight) or _is_sharded(input):
            from ._linear_sharded import multiply_sharded

            return multiply_sharded(self, input)
        return multiply_local(self, input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, fp8moe={self.fp8moe_recipe}"


def _is_sharded(tensor: torch.Tensor) -> bool:
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor  # not hasattr, which Dynamo answers for another class

    return isinstance(tensor, DTensor)


# --- One module -------------------------------------------------------------------


def convert_linear(
    module: torch.nn.Module,
    recipe: recipes.LinearRecipe = "rowwise",
    *,
    least_rows: int = LEAST_ROWS,
    keep: Optional[Literal["step"]] = None,
) -> torch.nn.Module:
    """Makes a torch.nn.Linear multiply in FP8, in place: it stays the same object, with its parameters, hooks and buffers.

    For a converted layer it changes the options; "bf16" makes it torch's again.

    Raises:
        TypeError: the module is no torch.nn.Linear, or has its own forward method.
        ValueError: the recipe, or `keep`, is unknown.
    """
    check_options("convert_linear", recipe, keep)
    check_counts("convert_linear", 0, least_rows=least_rows)
    if not isinstance(module, Linear):
        if not isinstance(module, torch.nn.Linear) or type(module).forward is not torch.nn.Linear.forward:
            raise TypeError(
                f"convert_linear: module is of type {type(module).__name__}, expected a torch.nn.Linear, or a subclass with its forward"
            )
        if recipe == "bf16":
            return module
        original: Any = type(module)
        module.__class__ = _class_of(original)
    assert isinstance(module, Linear)
    module.fp8moe_recipe, module.fp8moe_least_rows, module.fp8moe_keep = recipe, least_rows, keep
    if keep:
        module.fp8moe_known = None  # its programs quantize the weights in each call
    return module


def check_options(function: str, recipe: str, keep: Optional[str]) -> None:
    """Raises ValueError for unknown options."""
    linear_programs.list_bf16_uses(recipe)
    if keep not in (None, "step"):
        raise ValueError(f"{function}: keep is {keep!r}, expected 'step' or None")


def check_counts(function: str, least: int, **counts: Any) -> None:
    """Raises TypeError unless a count is a whole number, and ValueError if it is below `least`."""
    for name, count in counts.items():
        is_whole = isinstance(count, Integral) and not isinstance(count, bool)
        if not (is_whole and count >= least):
            raise (ValueError if is_whole else TypeError)(f"{function}: {name} is {count!r}, expected a whole number, at least {least}")


@functools.lru_cache(maxsize=None)
def _class_of(original: Any) -> Type[Linear]:
    """The class of converted layers whose original class is `original`."""
    if original is torch.nn.Linear:
        return Linear

    class Converted(Linear, original):
        def __reduce_ex__(self, protocol: Any) -> Any:  # the class cannot be imported by name
            return _rebuild, (original,), self.__dict__

    Converted.__name__ = Converted.__qualname__ = f"FP8{original.__name__}"
    Converted.__module__ = original.__module__
    return Converted


def _rebuild(original: Any) -> Any:
    converted = _class_of(original)
    return converted.__new__(converted)


# --- One input of several layers ---------------------------------------------------


class _Entry(NamedTuple):
    #: Base tensor of the input, since each layer gets its own view of a DTensor.
    root: "weakref.ref[torch.Tensor]"
    #: Version and position of the input, and the program that quantized it.
    key: Tuple[Any, ...]
    forms: Tuple[torch.Tensor, ...]
    #: Identities of the layers that have read the entry.
    readers: Set[int]


class SharedInput:
    """The quantized copies of the last input of sibling layers, until all of them have read it.

    A layer reuses copies that a sibling made of the same tensor at the same version, at most once. A second call of the same layer
    always quantizes again. So the copies of a buffer that is overwritten between steps, possibly without a new version, are never
    outdated. torch.compile does not need this, as it merges equal operations of a graph.
    """

    def __init__(self, layers: int, rows: bool, columns: bool) -> None:
        self.layers = layers
        #: Whether any of the layers needs rows, and columns.
        self.rows, self.columns = rows, columns
        self._entry: Optional[_Entry] = None

    def __reduce__(self) -> Any:
        return SharedInput, (self.layers, self.rows, self.columns)

    def get(
        self, layer: Any, x: torch.Tensor, which: str, make: Callable[[], Tuple[torch.Tensor, ...]]
    ) -> Tuple[torch.Tensor, ...]:
        """The outputs of program `which` for `x`, made by `make` or shared with a sibling."""
        version = read_version(x)
        if version is None:  # inference tensors have no version that would show a change
            return make()
        root = x if x._base is None else x._base
        key = (which, version, x.dtype, x.shape, x.stride(), x.storage_offset())
        entry = self._entry
        if entry is None or entry.root() is not root or entry.key != key or id(layer) in entry.readers:
            forms = make()
            self._entry = _Entry(weakref.ref(root, self._forget), key, forms, {id(layer)})
            return forms
        entry.readers.add(id(layer))
        if len(entry.readers) >= self.layers:
            self._entry = None
        return entry.forms

    def _forget(self, root: "weakref.ref[torch.Tensor]") -> None:
        entry = self._entry
        if entry is not None and entry.root is root:
            self._entry = None


def share_inputs(model: torch.nn.Module) -> None:
    """Lets converted siblings that read the same tensor (linear_programs.SHARED_INPUTS) quantize it once."""
    for parent in model.modules():
        children = {name: child for name, child in parent.named_children() if isinstance(child, Linear)}
        for names in linear_programs.SHARED_INPUTS:
            siblings = [child for name, child in children.items() if name in names]
            layers = [layer for layer in siblings if layer.fp8moe_recipe != "bf16"]
            bf16 = [linear_programs.list_bf16_uses(layer.fp8moe_recipe) for layer in layers]
            rows, columns = (any(use not in uses for uses in bf16) for use in ("forward", "grad_weights"))
            shared = SharedInput(len(layers), rows, columns) if len(layers) > 1 else None
            for layer in siblings:
                layer.fp8moe_shared = shared if layer in layers else None


# --- What a layer computes ----------------------------------------------------------


def multiply_local(
    layer: Linear, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], decided: bool = False
) -> torch.Tensor:
    """The layer on tensors of this rank. `decided` means that the caller has chosen FP8."""
    if not decided and not _fits(layer, x, weight):
        return torch.nn.functional.linear(x, weight, bias)
    is_compiling = torch.compiler.is_compiling()
    N, K = weight.shape
    weights, x = weight.to(torch.bfloat16).contiguous(), x.to(torch.bfloat16)
    bias = None if bias is None else bias.to(torch.bfloat16)
    is_inspected = not is_compiling and bool(observers)
    if not is_compiling and not is_inspected:  # the tensors may be new here, as autocast has cast them
        result = multiply_again(layer, x, weights, bias)
        if result is not None:
            return result
    rows = x.reshape(-1, K).contiguous()
    is_kept = _is_kept(layer, weight, decided)
    y = _multiply(layer, x, rows, weights, is_kept)
    if is_inspected:
        ends = torch.full((1,), rows.shape[0], dtype=torch.int32, device=rows.device)
        operand: Any = weights.t()[None]
        if is_kept:
            operand = _keep(weights, layer.fp8moe_recipe, chip_of(x.device)).replace_view(operand)
        observers[-1](rows, operand, ends, y, layer.fp8moe_recipe)
    y = torch.ops.aten._unsafe_view(y, [*x.shape[:-1], N])  # torch's own linear does not return a view to autograd either
    if not is_compiling and not is_kept and rows.shape[0] % linear_programs.ROWS_MULTIPLE == 0:
        if layer.fp8moe_known is None:
            layer.fp8moe_known = KnownCalls()
        tensors = (x, weights) if bias is None else (x, weights, bias)
        layer.fp8moe_known.add(layer, lambda: _find_programs(layer, rows, weights), tensors, y.shape)
    return y if bias is None else y + bias


def _fits(layer: Linear, x: torch.Tensor, weight: torch.Tensor) -> bool:
    if x.is_nested or x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        return False
    return is_in_fp8(layer, x, weight, math.prod(x.shape[:-1]), *weight.shape)


def is_in_fp8(layer: Linear, x: torch.Tensor, weight: torch.Tensor, rows: int, N: int, K: int) -> bool:
    """Whether the layer multiplies this many rows by weights [N, K] in FP8. Sizes are those of a rank."""
    if layer.fp8moe_recipe == "bf16" or is_exporting() or not is_trained(layer):
        return False
    if x.device.type not in ("cpu", "cuda") or weight.device != x.device or N % MULTIPLE or K % MULTIPLE:
        return False
    if not _computes_in_bf16(x, weight):
        _warn_of_type(layer.training, x.dtype)
        return False
    if not has_kernels(x.device):
        return False
    if torch.compiler.is_compiling():  # the number of rows may be data, as in x[mask]
        return bool(guard_or_false(rows >= layer.fp8moe_least_rows))
    return bool(rows >= layer.fp8moe_least_rows)


def _computes_in_bf16(x: torch.Tensor, weight: torch.Tensor) -> bool:
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        is_cast = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
        return bool(is_cast and torch.get_autocast_dtype(kind) == torch.bfloat16)
    return bool(x.dtype == torch.bfloat16 and weight.dtype == torch.bfloat16)


@assume_constant_result
def _warn_of_type(training: bool, dtype: torch.dtype) -> bool:
    if training:
        warnings.warn(
            f"fp8moe.torch.Linear: a layer computes in {dtype}, expected torch.bfloat16; it is not in FP8. Cast the model with "
            ".bfloat16(), or run it under torch.autocast(device, torch.bfloat16)",
            stacklevel=2,
        )
    return True


class _Forms(NamedTuple):
    """Quantized copies of the input that a layer reads."""

    #: Program that makes the copies for this layer and its siblings; None if nothing is quantized.
    which: Optional[str]
    #: Results of the program that this layer reads, and the columns among these.
    read: slice
    columns: slice
    with_columns: bool


def _find_forms(layer: Linear, is_trained: bool) -> _Forms:
    bf16 = linear_programs.list_bf16_uses(layer.fp8moe_recipe)
    with_rows, with_columns = "forward" not in bf16, "grad_weights" not in bf16 and is_trained
    which = _name_input(layer.fp8moe_shared, with_rows, with_columns, is_trained)
    begin = 2 if which == "quantize_both" and not with_rows else 0  # siblings may need rows that this layer skips
    end = begin + 2 * (with_rows + with_columns)
    return _Forms(which, slice(begin, end), slice(2 * with_rows, 4 if with_columns else 0), with_columns)


def _is_kept(layer: Linear, weight: torch.Tensor, is_sharded: bool) -> bool:
    """Whether the layer uses cached quantized weights. Weights computed from others (adapters, casts) are never cached."""
    is_parameter = is_sharded or type(weight) is torch.nn.Parameter
    return bool(layer.fp8moe_keep and is_parameter and weight.dtype == torch.bfloat16 and weight.is_contiguous())


def _multiply(layer: Linear, x: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor, is_kept: bool) -> torch.Tensor:
    is_trained = torch.is_grad_enabled() and weights.requires_grad
    read = _find_forms(layer, is_trained)
    is_differentiated = is_trained or (torch.is_grad_enabled() and rows.requires_grad)
    if is_differentiated and not torch.compiler.is_compiling() and is_transformed():
        raise Error(
            "fp8moe.torch.Linear does not train in torch.func (grad, vjp, vmap); backward() and torch.autograd.grad give its gradients, "
            "and an input may have any leading dimensions"
        )
    device, (M, K), N = rows.device, rows.shape, weights.shape[0]
    missing = -M % linear_programs.ROWS_MULTIPLE if read.which in _WITH_COLUMNS else 0
    if missing:  # rows of zeros do not change the results
        rows = torch.nn.functional.pad(rows, (0, 0, 0, missing))
    forms: Tuple[torch.Tensor, ...] = ()
    if read.which is not None:
        quantize = _find_input_op(int(K), read.which, device)
        if torch.compiler.is_compiling() or layer.fp8moe_shared is None:
            forms = _as_tuple(quantize(rows.detach()))
        else:
            forms = layer.fp8moe_shared.get(layer, x, read.which, lambda: _as_tuple(quantize(rows.detach())))
    op = _find_op(int(K), int(N), layer.fp8moe_recipe, read.with_columns, is_kept, device)
    result: torch.Tensor = op(rows, weights, *forms[read.read])
    return result[:M] if missing else result


def _find_programs(layer: Linear, rows: torch.Tensor, weights: torch.Tensor) -> Programs:
    """The programs of an eager call with gradients."""
    (N, K), device = weights.shape, rows.device
    read = _find_forms(layer, weights.requires_grad)
    ops = _list_linear_ops(int(K), int(N), layer.fp8moe_recipe, chip_of(device))
    forward = ops["forward_with_columns" if read.with_columns else "forward"]
    quantize = None if read.which is None else _find_input_op(int(K), read.which, device)
    return Programs(ops, forward, quantize, read.read, read.columns)


_WITH_COLUMNS = ("quantize_both", "quantize_columns")


def _name_input(shared: Optional[SharedInput], with_rows: bool, with_columns: bool, is_trained: bool) -> Optional[str]:
    """The program of `linear_programs.linear_input` for the needs of this layer and its siblings; None if it needs nothing."""
    if not with_rows and not with_columns:
        return None
    if shared is not None:
        with_rows, with_columns = with_rows or shared.rows, with_columns or (shared.columns and is_trained)
    return ("quantize_both" if with_columns else "quantize_rows") if with_rows else "quantize_columns"


def _as_tuple(results: Any) -> Tuple[torch.Tensor, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


# --- Operators ----------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def list_input_ops(K: int, chip: str) -> Dict[str, Op]:
    """The programs of `linear_programs.linear_input`."""
    return load_ops(linear_programs.linear_input_request(K, chip), ("quantize_rows", "quantize_columns", "quantize_both", "dequantize_rows"))


@functools.lru_cache(maxsize=None)
def make_linear_op(K: int, N: int, recipe: str, chip: str, with_columns: bool, kept: bool = False) -> Op:
    """The differentiable forward of `linear_programs.linear`."""
    ops = _list_linear_ops(K, N, recipe, chip, kept)
    if kept:
        finds = {False: lambda weights: _keep(weights, recipe, chip).take_forms(), True: lambda weights: _keep(weights, recipe, chip).forms}
        # The forward has compared the weights already, so backwards skip that.
        ops = {name: as_kept_op(op, finds[not name.startswith("forward")]) for name, op in ops.items()}
    if with_columns:
        return differentiable(ops["forward_with_columns"], [ops[name] for name in ("backward", "grad_x", "grad_weights") if name in ops])
    has_all = "grad_weights" in linear_programs.list_bf16_uses(recipe)
    names = ("backward", "grad_x", "grad_weights") if has_all else ("grad_x",)
    return differentiable(ops["forward"], [ops[name] for name in names if name in ops])


@functools.lru_cache(maxsize=None)
def _list_linear_ops(K: int, N: int, recipe: str, chip: str, kept: bool = False) -> Dict[str, Op]:
    request = linear_programs.linear_request(K, N, chip, recipe=recipe, kept=kept)
    return load_ops(request, linear_programs.list_linear(K, N, recipe, kept))


def _keep(weights: torch.Tensor, recipe: str, chip: str) -> QuantizedWeights:
    """Quantized copies of weights [N, K], made at most once between optimizer steps."""
    N, K = weights.shape

    def quantize(weights: torch.Tensor) -> QuantizedWeights:
        op = _list_linear_ops(K, N, recipe, chip, True)["quantize_weights"]
        # `inspect` compares the copies with weights of shape [1, K, N].
        maker = Maker(lambda source: source[0].t() if source.dim() == 3 else source, op.overload, op.write)
        return QuantizedWeights(weights, recipe, op(weights), weights, maker)

    return find_or_make(weights, (recipe,), quantize, "fp8moe.torch.Linear: weight")


def forget_linear_operators() -> None:
    """Drops all cached operators; for tests."""
    for function in (list_input_ops, make_linear_op, _list_linear_ops):
        function.cache_clear()


def _find_input_op(K: int, which: str, device: torch.device) -> Any:
    if torch.compiler.is_compiling():
        return getattr(torch.ops.fp8moe, _name_input_op(K, which, device))
    return list_input_ops(K, chip_of(device))[which]


def _find_op(K: int, N: int, recipe: str, with_columns: bool, kept: bool, device: torch.device) -> Any:
    if torch.compiler.is_compiling():
        return getattr(torch.ops.fp8moe, _name_op(K, N, recipe, with_columns, kept, device))
    return make_linear_op(K, N, recipe, chip_of(device), with_columns, kept)


# These functions run while Dynamo traces, so that the graph contains only the operators.
@assume_constant_result
def _name_input_op(K: int, which: str, device: torch.device) -> str:
    return list_input_ops(K, chip_of(device))[which].name


@assume_constant_result
def _name_op(K: int, N: int, recipe: str, with_columns: bool, kept: bool, device: torch.device) -> str:
    return make_linear_op(K, N, recipe, chip_of(device), with_columns, kept).name


# --- Before the first step -----------------------------------------------------------


class LinearNeed(NamedTuple):
    """The programs that a converted layer needs."""

    K: int
    N: int
    recipe: str
    chip: str
    keeps: bool

    def list_requests(self, kept: bool, main_grad: bool) -> List[cache.Request]:
        return [
            linear_programs.linear_input_request(self.K, self.chip),
            linear_programs.linear_request(self.K, self.N, self.chip, recipe=self.recipe, kept=self.keeps),
        ]

    def load(self, kept: bool, main_grad: bool) -> None:
        """Makes the operators, as the first call would."""
        list_input_ops(self.K, self.chip)
        make_linear_op(self.K, self.N, self.recipe, self.chip, False, self.keeps)
        if "grad_weights" not in linear_programs.list_bf16_uses(self.recipe):
            make_linear_op(self.K, self.N, self.recipe, self.chip, True, self.keeps)


def is_layer(module: torch.nn.Module) -> bool:
    return isinstance(module, Linear) and module.fp8moe_recipe != "bf16"


def find_need(module: torch.nn.Module, device: Optional[torch.device]) -> Optional[LinearNeed]:
    """The programs of `module`, if it is a layer in FP8 and there are kernels. Raises ValueError on "meta" without a device."""
    if not is_layer(module):
        return None
    assert isinstance(module, Linear)
    target = device or module.weight.device
    if target.type == "meta":
        raise ValueError("prepare: a linear layer is on 'meta'; say where the model will run, as device='cuda'")
    if not has_kernels(target):
        return None
    N, K = local_shape(module.weight)
    keeps = module.fp8moe_keep is not None and module.weight.dtype == torch.bfloat16
    return LinearNeed(K, N, module.fp8moe_recipe, chip_of(target), keeps)


def local_shape(weight: torch.Tensor) -> Tuple[int, int]:
    """The sizes [N, K] of this rank's part of a weight."""
    N, K = getattr(weight, "_local_tensor", weight).shape
    return int(N), int(K)
