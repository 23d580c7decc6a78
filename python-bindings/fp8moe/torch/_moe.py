# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A whole MoE layer behind its router. Programs quantize tokens where they are sorted, and SwiGLU where it is computed."""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from .. import cache, moe_programs, recipes
from . import _auto
from ._constant import assume_constant_result, warn_once
from ._expert_parallel import (
    Wire, combine, combine_tokens, dispatch_tokens, find_group, require_capacity, require_wire, sort_tokens,
)  # fmt: skip
from ._experts import experts as run_experts
from ._glu import Activation, compute_weighted_gradients
from ._grouped_mm import _LEAST_ROWS, FIXED, _lay_out, chip_of, find_layout, find_shape, gives_x_first, is_exporting, observers, require_tensor
from ._kept import keep as keep_forms, reads_gathered
from ._ops import CUDAGRAPH_UNSAFE, Op, define, find_asked, load_ops, with_strides
from ._permute import (
    Routing, _Permute, _require_backward, _Sum, _sum_slots, gather_weights, permute, permute_weights, require_tokens, route, unpermute,
)  # fmt: skip
from ._triton import has_kernels
from ._weights import QuantizedWeights, gathered

_Weights = Union[torch.Tensor, QuantizedWeights]
#: One quantized copy of a matrix and its scales, or nothing.
_Forms = Sequence[torch.Tensor]


def moe(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    gate_up: _Weights,
    down: _Weights,
    *,
    activation: Union[Activation, Callable[[torch.Tensor], torch.Tensor]] = "silu",
    recipe: Union[recipes.Recipe, Tuple[recipes.Recipe, recipes.Recipe]] = "auto",
    group: Any = None,
    wire: Wire = "bf16",
    capacity: Optional[float] = None,
    dropped: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Runs tokens through their experts: `permute`, `experts` and `unpermute` in one function.

    With SwiGLU the weights multiply rows before `down`, as in `experts` with `permute_weights`.

        weights, chosen = router(x).softmax(-1).topk(k)
        y = moe(x, chosen, weights, gate_up, down)

    A training step with FP8 throughout, SwiGLU and at least 128 rows per expert uses programs of its own. They quantize sorted
    tokens and the result of SwiGLU where they are computed, so that neither is stored as bf16. Otherwise the three functions
    run separately. They also do so:

    * without gradients, as in the first forward of a reentrant checkpoint, whose result differs by rounding;
    * with recipe "auto", in graphs with a symbolic number of rows;
    * on machines with neither these programs nor the compiler.

    Recipe "auto" uses FP8 throughout if it pays for one use of the weights.

    Args:
        x: bf16 [T, D].
        experts: integers [T, k], as for `permute`. Numbers outside of 0 to E - 1 are experts of other ranks. With a group, numbers
            cover the experts of all its ranks.
        weights: [T, k], the router's weights, or None for ones.
        gate_up: bf16 [E, D, 2H], as for `experts`.
        down: bf16 [E, H, D], likewise.
        activation: as for `experts`.
        recipe: as for `experts`.
        group: None, the default, exchanges nothing, even in a job of several ranks. A process group has E experts on each of its ranks,
            in order, and tokens travel as in `expert_parallel`. torch.distributed.group.WORLD is the group of all ranks. All ranks of
            the group call together. Each chooses its programs by T * k rows, which balanced routing would give it.
        wire, capacity, dropped: as for `expert_parallel`.

    Returns:
        [T, D], of the type of x.

    Raises as these functions.
    """
    _require_backward("moe", x, weights)
    shape = find_shape(gate_up)
    if shape is None:
        matrices: Any = gate_up
        require_tensor("moe", "gate_up", matrices, "[E, D, 2H]")
        raise ValueError(f"moe: gate_up has shape {tuple(matrices.shape)}, expected [E, D, 2H]")
    E = operator.index(shape[0])
    wanted = recipes.for_each("moe", recipe, 2)
    require_wire("moe", wire)
    require_capacity("moe", capacity, dropped, getattr(x, "device", None))
    name, ranks = ("", 1) if group is None else find_group("moe", group)
    if ranks > 1 and weights is None and isinstance(experts, torch.Tensor):
        weights = torch.ones(experts.shape, device=experts.device)
    is_whole = activation == "silu" and fits_moe(x, experts, weights, gate_up, down, wanted)
    if ranks > 1:
        tokens, exchange = dispatch_tokens("moe", x, experts, weights, E * ranks, name, ranks, wire, capacity, dropped)
        if is_whole:
            return combine_tokens(run_routed(tokens, exchange.here, exchange.weights, gate_up, down, is_exchanged=True), exchange)
        y = run_experts(sort_tokens(tokens, exchange), gate_up, down, exchange.offsets, activation=activation, recipe=recipe)
        return combine(y, exchange).to(x.dtype)
    if is_whole:
        return run_whole(x, experts, weights, gate_up, down, E)
    rows, routing = permute(x, experts, E)
    if activation != "silu" or weights is None:  # other activations would be saved twice
        return unpermute(run_experts(rows, gate_up, down, routing.offsets, activation=activation, recipe=recipe), routing, weights)
    of_rows = permute_weights(weights, routing)
    return unpermute(run_experts(rows, gate_up, down, routing.offsets, weights=of_rows, recipe=recipe), routing)


def run_whole(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    gate_up: _Weights,
    down: _Weights,
    E: int,
    where: str = "",
) -> torch.Tensor:
    """`moe` by the programs of a layer, for arguments that `fits_moe` has accepted.

    With `where` (_kept.py), the matrices are parameters as they are stored, whose quantized copies are looked up at run time.
    """
    require_tokens("moe", x, experts, E)
    return run_routed(x.contiguous(), route(experts, E), weights, gate_up, down, where=where)


def run_routed(
    x: torch.Tensor,
    routing: Routing,
    weights: torch.Tensor,
    gate_up: _Weights,
    down: _Weights,
    is_exchanged: bool = False,
    where: str = "",
) -> torch.Tensor:
    """The layer for given routing. `routing.slots` may omit, at its end, rows of experts on other ranks.

    Tokens from other ranks are not saved for the backward, so their gradients cannot be differentiated again.
    """
    matrices: Any = (gate_up, ()), (down, ())
    if not where:
        matrices = _take_forms("gate_up", gate_up), _take_forms("down", down)
    (first, first_forms), (second, second_forms) = matrices
    by_kernel = x.is_cuda and has_kernels("_glu_kernels")
    of_rows = permute_weights(weights.detach(), routing)
    result: torch.Tensor = _MoE.apply(
        x, weights, first, second, by_kernel, is_exchanged, where, of_rows, *routing, *first_forms, *second_forms
    )
    return result


def fits_moe(
    x: Any, experts: Any, weights: Any, gate_up: Any, down: Any, wanted: Sequence[recipes.Recipe], is_kept: bool = False
) -> bool:
    """Whether programs accept the tensors, and FP8 pays by both recipes. `is_kept` assumes cached quantized weights."""
    given = gate_up, down
    kept = [each for each in given if isinstance(each, QuantizedWeights)]
    if kept and (len(kept) < 2 or any(each.recipe != "rowwise" for each in kept)):
        return False
    gate_up, down = (each.weights if isinstance(each, QuantizedWeights) else each for each in given)
    if any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in (x, experts, weights, gate_up, down)):
        return False
    if not torch.is_grad_enabled() or is_exporting() or reads_gathered() or gathered:
        return False
    if observers and not torch.compiler.is_compiling():  # `inspect` records separate matmuls
        return False
    for recipe in wanted:
        recipes.check("moe", recipe)
    device = x.device
    if device.type not in ("cpu", "cuda") or torch.is_autocast_enabled(device.type):
        return False
    matrices = gate_up.dim() == down.dim() == 3 and x.dim() == experts.dim() == weights.dim() == 2
    if not matrices or any(tensor.device != device for tensor in (experts, weights, gate_up, down)):
        return False
    if any(tensor.dtype != torch.bfloat16 for tensor in (x, gate_up, down)) or not (gate_up.requires_grad and down.requires_grad):
        return False
    E, D, two_H = gate_up.shape
    if x.shape[1] != D or down.shape != (E, two_H // 2, D) or two_H % 32 or D % 16 or weights.shape != experts.shape:
        return False
    M = experts.numel()
    if not guard_or_false(M >= _LEAST_ROWS * E):  # columns would be mostly padding
        return False
    mixes = [recipe if recipe in FIXED else _auto.choose(M, matrix, recipe, is_kept) for matrix, recipe in zip(given, wanted)]
    if set(wanted) == {recipes.AUTO}:
        # The layer's kernels save so much that FP8 throughout pays if one use does.
        pays = any(any(recipes.MIXES.get(mix, ())) for mix in mixes)
    else:
        pays = set(mixes) == {"rowwise"}
    if not pays:
        return False
    D, H, E = (operator.index(size) for size in (D, two_H // 2, E))
    if not _auto.has_kernels(device, D, 2 * H):
        return False
    found: bool = _constant_has_programs(D, H, E, find_layout(gate_up), find_layout(down), device)
    return found


@functools.lru_cache(maxsize=None)
def _has_programs(D: int, H: int, E: int, gate_up: str, down: str, device: torch.device) -> bool:
    """Whether the programs of a layer can be found or compiled. Without the compiler, only those of grouped_mm may exist."""
    chip = chip_of(device)
    if cache.can_compile(chip):
        return True
    missing = [request for request in list_requests(D, H, E, gate_up, down, chip) if not cache.find(request)]
    if not missing:
        return True
    warn_once(
        f"{missing[0].what} is neither prepared nor can it be compiled here, so layers of its size run as separate functions; "
        f"'{missing[0].command} --target={chip} -o FOLDER' makes it"
    )
    return False


def list_requests(D: int, H: int, E: int, gate_up: str, down: str, chip: str) -> List[cache.Request]:
    """Cache requests of `moe` for weights with these layouts."""
    layouts = list_layouts(gate_up, down)
    return [moe_programs.request(part, D, H, E, chip, weights=layout) for part, layout in layouts.items()]


def list_layouts(gate_up: str, down: str) -> Dict[str, str]:
    """The layout for each of moe_programs.PARTS; "rows" reads no weights."""
    return dict(zip(moe_programs.PARTS, ("NK", gate_up, down)))


@assume_constant_result
def _constant_has_programs(D: int, H: int, E: int, gate_up: str, down: str, device: torch.device) -> bool:
    """As `_has_programs`. It runs while Dynamo traces."""
    return _has_programs(D, H, E, gate_up, down, device)


def _take_forms(name: str, weights: _Weights) -> Tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """The matrix in a layout that programs accept, and its cached quantized copies, if any."""
    if not isinstance(weights, QuantizedWeights):
        return _lay_out(weights)[0], ()
    if not torch.compiler.is_compiling():
        weights.require_current(f"moe: {name}")
        weights.require_connected(f"moe: {name}")
    return _lay_out(weights.weights)[0], weights.take_forms()


# --- Programs -----------------------------------------------------------------------


class _Programs(NamedTuple):
    """One of moe_programs.PARTS, for a layer of sizes (D, H, E). The first `find` compiles it, or finds it in the cache."""

    part: str
    sizes: Tuple[int, int, int]
    layout: str
    device: torch.device

    def find(self, program: str) -> Any:
        where = self.part, self.sizes, self.layout, self.device
        if torch.compiler.is_compiling():
            return getattr(torch.ops.fp8moe, _name(program, *where))  # so that the graph contains only the operator
        return _load(*where)[program]

    def multiply(
        self,
        program: str,
        rows: torch.Tensor,
        scales: torch.Tensor,
        matrix: torch.Tensor,
        kept: _Forms,
        offsets: torch.Tensor,
        where: str,
    ) -> torch.Tensor:
        """`multiply_y` or `multiply_grad_x`. The quantized matrix is `kept`, looked up at run time, or made here."""
        result: torch.Tensor
        if where:
            result = torch.ops.fp8moe.kept_multiply(rows, scales, matrix, offsets, program, self.part, self.sizes, self.layout, where)
            return result
        if not kept:
            kept = self.find("quantize_weights_k")(matrix) if program == "multiply_y" else self.find("quantize_weights_n")(matrix, scales)
        result = self.find(program)(rows, scales, *kept, offsets)
        return result


@functools.lru_cache(maxsize=None)
def _load(part: str, sizes: Tuple[int, int, int], layout: str, device: torch.device) -> Dict[str, Op]:
    request = moe_programs.request(part, *sizes, chip_of(device), weights=layout)
    return load_ops(request, moe_programs.PARTS[part])


@assume_constant_result
def _name(program: str, part: str, sizes: Tuple[int, int, int], layout: str, device: torch.device) -> str:
    return _load(part, sizes, layout, device)[program].name


class _Layer(NamedTuple):
    """The programs of a whole layer."""

    rows: _Programs
    gate_up: _Programs
    down: _Programs

    @staticmethod
    def of(gate_up: torch.Tensor, down: torch.Tensor) -> "_Layer":
        E, H, D = (operator.index(size) for size in down.shape)
        sizes, device = (D, H, E), down.device
        layouts = list_layouts(find_layout(gate_up), find_layout(down))
        return _Layer(*(_Programs(part, sizes, layout, device) for part, layout in layouts.items()))


# --- The layer ----------------------------------------------------------------------


class _MoE(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weights: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        by_kernel: bool,
        is_exchanged: bool,
        where: str,
        of_rows: torch.Tensor,
        offsets: torch.Tensor,
        slots: torch.Tensor,
        places: torch.Tensor,
        *forms: torch.Tensor,
    ) -> torch.Tensor:
        """`forms` are the quantized copies of both matrices, along K and along N, or none."""
        layer = _Layer.of(_auto.view_of(gate_up, where), _auto.view_of(down, where))
        rows = (slots // places.shape[1]).to(torch.int32)
        x_rows, x_scales, *x_columns = layer.rows.find("quantize_tokens")(x, rows, offsets)
        h = layer.gate_up.multiply("multiply_y", x_rows, x_scales, gate_up, forms[:2], offsets, where)
        del x_rows
        # Rows are weighted before the second matmul, so its result only needs sums.
        a_rows, a_scales, *a_columns = layer.rows.find("quantize_activation")(h, of_rows, offsets)
        y = layer.down.multiply("multiply_y", a_rows, a_scales, down, forms[4:6], offsets, where)
        x = x.new_empty(0) if is_exchanged else x  # only _differentiate_again reads x
        saved = (x, weights, gate_up, down, offsets, slots, places, rows, of_rows, h, *x_columns, *a_columns, *forms[2:4], *forms[6:])
        ctx.save_for_backward(*saved)
        ctx.by_kernel, ctx.is_exchanged, ctx.where = by_kernel, is_exchanged, where
        ctx.strides = [tensor.stride() for tensor in saved]
        return _sum_slots(y, offsets, places)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # All ranks must continue to the exchange of gradients. A second differentiation raises an error only when it is tried.
            return _compute_once(ctx, gradient) if ctx.is_exchanged else _differentiate_again(ctx, gradient)
        return _compute_gradients(ctx, gradient)


def _compute_gradients(ctx: Any, gradient: torch.Tensor) -> Any:
    # Saved-tensor hooks may restore tensors in another layout.
    saved = [with_strides(tensor, strides) for tensor, strides in zip(ctx.saved_tensors, ctx.strides)]
    if not torch.compiler.is_compiling():
        ctx.maybe_clear_saved_tensors()  # unless the graph is retained, frees each tensor after its last use
    _, weights, gate_up, down, offsets, _, places, rows, of_rows, h, *others = saved
    x_columns, a_columns, gate_up_forms, down_forms = others[:2], others[2:4], others[4:6], others[6:]
    del saved, others
    asks_x, asks_weights, asks_gate_up, asks_down = find_asked(ctx, ctx.needs_input_grad[:4])
    gradient = gradient.contiguous()
    grad_x = grad_weights = grad_gate_up = grad_down = None
    where = ctx.where
    layer = _Layer.of(_auto.view_of(gate_up, where), _auto.view_of(down, where))
    q_rows, q_scales, *q_columns = layer.rows.find("quantize_tokens")(gradient, rows, offsets)
    if asks_down:
        grad_down = _auto.view_of(layer.down.find("multiply_grad_weights")(*q_columns, *a_columns, offsets), where)
    del q_columns, a_columns
    if asks_x or asks_weights or asks_gate_up:
        grad_a = layer.down.multiply("multiply_grad_x", q_rows, q_scales, down, down_forms, offsets, where)
        del q_rows
        grad_h, grad_of_rows = compute_weighted_gradients(grad_a, h, of_rows, ctx.by_kernel)
        del grad_a, h
        if asks_weights:
            grad_weights = gather_weights(grad_of_rows, offsets, places).to(weights.dtype)
    if asks_x or asks_gate_up:
        q_rows, q_scales, *q_columns = layer.gate_up.find("quantize_grad_y")(grad_h, offsets)
        del grad_h
        tensors = q_rows, q_scales, gate_up, gate_up_forms, offsets, where
        del q_rows, q_scales
        shape = _auto.view_of(gate_up, where).shape
        is_x_first = asks_x and gives_x_first(tensors[0].shape[0], shape, makes_form=not where and not gate_up_forms, sums=True)
        if is_x_first:
            grad_x = _sum_slots(layer.gate_up.multiply("multiply_grad_x", *tensors), offsets, places)
            del tensors
        if asks_gate_up:
            grad_gate_up = _auto.view_of(layer.gate_up.find("multiply_grad_weights")(*q_columns, *x_columns, offsets), where)
        del q_columns, x_columns
        if asks_x and not is_x_first:
            grad_x = _sum_slots(layer.gate_up.multiply("multiply_grad_x", *tensors), offsets, places)
    return (grad_x, grad_weights, grad_gate_up, grad_down, *(None for _ in ctx.needs_input_grad[4:]))


_compute_once = torch.autograd.function.once_differentiable(_compute_gradients)


def _differentiate_again(ctx: Any, gradient: torch.Tensor) -> Any:
    """Gradients by the three functions, with a history for create_graph. Operations that cannot be differentiated twice raise an error."""
    x, weights, gate_up, down, *routing = ctx.saved_tensors[:7]
    inputs = [tensor for tensor, needs in zip((x, weights, gate_up, down), ctx.needs_input_grad) if needs]
    with torch.enable_grad():
        routing = Routing(*routing)
        of_rows = permute_weights(weights, routing)
        y = run_experts(_Permute.apply(x, *routing), gate_up, down, routing.offsets, weights=of_rows, recipe="rowwise")
        found = iter(torch.autograd.grad(_Sum.apply(y, None, *routing), inputs, gradient, create_graph=True))
    gradients = (next(found) if needs else None for needs in ctx.needs_input_grad[:4])
    return (*gradients, *(None for _ in ctx.needs_input_grad[4:]))


# --- Kept weights in a graph --------------------------------------------------------


def _run_kept(
    rows: torch.Tensor,
    scales: torch.Tensor,
    parameter: torch.Tensor,
    offsets: torch.Tensor,
    program: str,
    part: str,
    sizes: List[int],
    layout: str,
    where: str,
) -> torch.Tensor:
    """A matmul with the quantized copies that `keep` returns at run time."""
    forms = keep_forms(parameter, where == _auto.STEP_TRANSPOSED, "rowwise", f"moe: {part}").take_forms()
    op = _load(part, (sizes[0], sizes[1], sizes[2]), layout, parameter.device)[program]
    result: torch.Tensor = op.run_within(rows, scales, *(forms[:2] if program == "multiply_y" else forms[2:]), offsets)
    return result


def _fake_kept(rows: torch.Tensor, scales: Any, parameter: Any, offsets: Any, program: str, part: str, sizes: List[int], *_: Any) -> Any:
    D, H = sizes[:2]
    inner, outer = (D, 2 * H) if part == "gate_up" else (H, D)
    return rows.new_empty(rows.shape[0], outer if program == "multiply_y" else inner, dtype=torch.bfloat16)


define(
    "kept_multiply",
    "(Tensor rows, Tensor scales, Tensor parameter, Tensor offsets, str program, str part, int[] sizes, str layout, str where) -> Tensor",
    _run_kept,
    _fake_kept,
    CUDAGRAPH_UNSAFE,
)
