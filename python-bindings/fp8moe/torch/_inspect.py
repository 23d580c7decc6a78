# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records effects of quantization during training: ranges, scales and errors of operands and results of the experts' matmuls.

It also names the operation that produced the first NaN.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import threading
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from .. import recipes
from . import _bf16, _pages, _statistics
from ._grouped_mm import find_layout, multiply, observers
from ._statistics import Groups, Statistics
from ._weights import QuantizedWeights, find_plain

#: Values of Record.operand that are results.
_RESULTS = ("y", "grad_x", "grad_weights")
_OUTSIDE = "outside of the model"
#: Advice for results whose signal-to-noise ratio is below `least_db`.
_ADVICE = {
    "y": "leave this layer in bf16",
    "grad_x": "use recipe='forward_only' there",
    "grad_weights": "use recipe='rowwise_bf16_grad_weights' there",
}


@dataclasses.dataclass(frozen=True)
class Record:
    """An operand or result of a matmul in a step. Lists have an entry per expert, None for experts without rows."""

    step: int
    #: Name of the weights, such as "model.layers.0.mlp.experts.down_proj".
    layer: str
    #: Operand, such as "x", "weights" or "grad_y by column", or result: "y", "grad_x" or "grad_weights".
    operand: str
    #: Ratio of signal to quantization noise against bf16, over all experts and for each expert.
    sqnr_db: float
    sqnr_db_of_expert: List[Optional[float]]
    #: Range and scales of operands; None for results.
    amax: Optional[List[Optional[float]]] = None
    scale_min: Optional[List[Optional[float]]] = None
    scale_max: Optional[List[Optional[float]]] = None
    #: Share of the nonzero elements among all that become zero.
    underflow: Optional[float] = None
    #: Share of elements that become the largest FP8 value.
    saturation: Optional[float] = None


class Inspection:
    """Result of `inspect`: a context manager with the records."""

    def __init__(self, model: torch.nn.Module, every: int, log_dir: Optional[str], least_db: float) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"inspect: model is of type {type(model).__name__}, expected a torch.nn.Module")
        if every < 1:
            raise ValueError(f"inspect: every is {every}, expected 1 or more")
        #: Records in order of computation.
        self.records: List[Record] = []
        #: Origin of the first NaN, such as "step 3, backward: aten.div.Tensor, model.layers.0.mlp", or None.
        self.first_nan: Optional[str] = None
        #: Results below `least_db` in a sampled step: the worst record by layer and result.
        self.poor: Dict[Tuple[str, str], Record] = {}
        #: Layers whose cached quantized weights were outdated in a sampled step, with the first such step.
        self.stale: Dict[str, int] = {}
        #: Number of calls of the model.
        self.steps = 0
        self._model = model
        self._every = every
        self._least_db = least_db
        self._said_offsets = False
        self._writer = _make_writer(log_dir) if log_dir is not None else None
        self._sample: Optional[_Sample] = None
        self._exits = contextlib.ExitStack()
        #: The thread that entered the context.
        self._thread: Optional[int] = None

    def __enter__(self) -> "Inspection":
        if self._thread is not None:
            raise RuntimeError("inspect: the context is entered already; make another one with inspect(model)")
        self._thread = threading.get_ident()
        self._exits.callback(self._model.register_forward_pre_hook(self._begin_step).remove)
        compiled = getattr(self._model, "_compiled_call_impl", None)
        if compiled is not None:
            # Hooks of a model that was compiled in place would become part of the graph.
            self._model._compiled_call_impl = None
            self._exits.callback(setattr, self._model, "_compiled_call_impl", compiled)
        return self

    def __exit__(self, *_: Any) -> None:
        self._end_sample()
        self._exits.close()
        self._thread = None
        if self._writer is not None:
            self._writer.flush()

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The last sampled step as a table: a line per operand and result, with the expert that has the lowest SQNR."""
        first, *others = self._list_findings()
        if not self.records:
            return first
        lines = [first, f"step {self.records[-1].step}"]
        rows = [_HEAD, *self._list_last_step()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        for row in rows:
            cells = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *others])

    def html(self, path: Union[str, "os.PathLike[str]", None] = None) -> str:
        """The run as an HTML page: a plot of signal over noise by step, and the table. Also written to `path`, if given."""
        return _pages.write_inspection(self.records, self._least_db, self._list_findings(), _HEAD, self._list_last_step(), path)

    def _list_findings(self) -> List[str]:
        nan = f"first NaN: {self.first_nan}" if self.first_nan else "no NaN was seen"
        if not self.records:
            return [f"{nan}; nothing was recorded: no FP8 matmul ran in a sampled step"]
        stale = [f"{layer}: {_STALE}, in step {step}" for layer, step in self.stale.items()]
        return [nan, *map(self._say_poor, self.poor.values()), *stale]

    def _list_last_step(self) -> List[Tuple[str, ...]]:
        return [_row(record) for record in self.records if record.step == self.records[-1].step]

    def _say_poor(self, record: Record) -> str:
        return (
            f"{record.layer}: {record.operand} has {record.sqnr_db:.1f} dB in step {record.step}, less than {self._least_db:g}; "
            f"{_ADVICE[record.operand]}"
        )

    def _find_poor(self, records: List[Record]) -> None:
        for record in records:
            if record.operand not in _ADVICE or not record.sqnr_db < self._least_db:
                continue
            key = record.layer, record.operand
            if key not in self.poor:
                warnings.warn(f"fp8moe: {self._say_poor(record)}", RuntimeWarning, stacklevel=4)
            if key not in self.poor or record.sqnr_db < self.poor[key].sqnr_db:
                self.poor[key] = record

    def _begin_step(self, *_: Any) -> None:
        # Checkpoints call the model again in backward passes, which run in their own threads on a GPU.
        if torch.compiler.is_compiling() or torch._C._current_graph_task_id() != -1:
            return
        if threading.get_ident() != self._thread:  # dispatch modes belong to a thread
            raise RuntimeError("inspect: the model is called in another thread than the one that entered the context; enter it there")
        self._end_sample()
        if self.steps % self._every == 0:
            # torch.compile returns a wrapper around the model.
            model = getattr(self._model, "_orig_mod", self._model)
            self._sample = _Sample(model, is_running=model is self._model)
        self.steps += 1

    def _end_sample(self) -> None:
        """Ends a sampled step. It is the only place that waits for the device."""
        if self._sample is None:
            return
        sample, self._sample = self._sample, None
        sample.stop()
        step = self.steps - 1
        records = [_make_record(step, *found) for found in sample.found]
        self.records += records
        wrong = sample.find_wrong_offsets()
        if wrong is None:  # with wrong offsets, the compared results are not the multiplied ones
            self._find_poor(records)
        for layer in sample.find_stale():
            if layer not in self.stale:
                self.stale[layer] = step
                warnings.warn(f"fp8moe: step {step}, {layer}: {_STALE}", RuntimeWarning, stacklevel=3)
        where = sample.find_nan()
        if where and self.first_nan is None:
            self.first_nan = f"step {step}, {where}"
            warnings.warn(f"fp8moe: the first NaN is of {self.first_nan}", RuntimeWarning, stacklevel=3)
        if wrong is not None and not self._said_offsets:
            self._said_offsets = True
            warnings.warn(f"fp8moe: step {step}, {wrong}", RuntimeWarning, stacklevel=3)
        if self._writer is not None:
            for record in records:
                _write(self._writer, record)


def inspect(
    model: torch.nn.Module, *, every: int = 1, log_dir: Optional[str] = None, least_db: float = 20.0
) -> Inspection:
    """Records the effects of FP8 on the experts of `model` while the context is active.

        with fp8moe.torch.inspect(model, every=100) as report:
            train(model)
        print(report)

    A step is a call of the model, with everything until the next call. Each `every`-th step is sampled: it runs eagerly, even if
    the model is compiled, and takes a multiple of the time and memory. Results do not change. Other steps run as usual. A model
    that was compiled in place by `model.compile()` runs eagerly in all steps.

    Sampled steps check the results of every operation for NaN; `every=1` finds the first NaN of a run. They warn about
    offsets that are no ends of groups, which no other code checks. They also warn about cached weights (`quantize_weights`) whose
    quantized copies do not match all elements.

    The model may use DDP, FSDP, expert or tensor parallelism: each process checks its own tensors, without a collective.
    The result of an asynchronous collective is checked where it is awaited.

    Args:
        model: records name modules as this model does.
        every: sampling interval in steps; the first step is sampled.
        log_dir: folder for TensorBoard figures.
        least_db: results with less signal over noise cause a warning with advice.

    Raises:
        TypeError: the model is no module.
        ValueError: `every` is less than 1.
        RuntimeError: inside the context, if another thread calls the model.
        ImportError: `log_dir` is given, and TensorBoard is not installed.
    """
    return Inspection(model, every, log_dir, least_db)


#: Text of the warning about outdated quantized weights.
_STALE = (
    "the kept forms are not those of the weights as they are now; call refresh(), or quantize_weights again, whenever weights arrive or "
    "change"
)


# --- One step ---------------------------------------------------------------------


class _Sample(TorchDispatchMode):
    """Hooks on all modules, grouped matmuls, and torch operations, from construction until `stop`."""

    def __init__(self, model: torch.nn.Module, is_running: bool) -> None:
        """`is_running` means that the forward of `model` has begun, too late for hooks on it."""
        super().__init__()
        #: Layer, operand and statistics; the latter are on the device.
        self.found: List[Tuple[str, str, Statistics]] = []
        self._nans: List[Tuple[str, torch.Tensor]] = []
        #: For each matmul its name, whether its offsets descend or exceed the rows, and whether they look like sizes of groups.
        self._offsets: List[Tuple[str, torch.Tensor, torch.Tensor]] = []
        self._stale: List[Tuple[str, torch.Tensor]] = []
        self._modules: List[Tuple[str, torch.nn.Module]] = [("", model)] if is_running else []
        self._calls: Dict[str, int] = {}
        self._backward_of = _OUTSIDE
        self._followed = WeakTensorKeyDictionary()
        #: Whether operations of this class, and not of the model, are running.
        self._busy = False
        self._stopped = False
        self._exits = contextlib.ExitStack()
        self._exits.enter_context(torch.compiler.set_stance("force_eager"))  # for compiled functions inside the model
        for name, module in model.named_modules():
            self._follow(name, module)
        for name, parameter in model.named_parameters():
            self._check(f"before its forward: parameter {name}", parameter)
        observers.append(self._observe)
        self.__enter__()

    def stop(self) -> None:
        self._stopped = True
        self.__exit__(None, None, None)
        observers.remove(self._observe)
        self._exits.close()

    def find_nan(self) -> Optional[str]:
        by_device: Dict[torch.device, List[int]] = {}
        for i, (_, flag) in enumerate(self._nans):
            by_device.setdefault(flag.device, []).append(i)
        nans = []
        for places in by_device.values():
            flags = torch.stack([self._nans[i][1] for i in places]).tolist()
            nans += [i for i, flag in zip(places, flags) if flag]
        return self._nans[min(nans)][0] if nans else None

    def find_stale(self) -> List[str]:
        return [layer for layer, is_stale in self._stale if is_stale]

    def find_wrong_offsets(self) -> Optional[str]:
        """A message about the first wrong offsets."""
        for layer, are_no_ends, are_sizes in self._offsets:
            if are_sizes:
                return (
                    f"{layer}: the sum of the offsets is the number of rows, as if they were sizes of groups; expected the end of "
                    "each group: torch.cumsum(sizes, 0, dtype=torch.int32)"
                )
            if are_no_ends:
                return (
                    f"{layer}: the offsets are no ends of groups, ascending from 0 to the number of rows: other rows are "
                    "multiplied than was meant. Of sizes of groups torch.cumsum(sizes, 0, dtype=torch.int32) makes ends"
                )
        return None

    # --- Position in the model ------------------------------------------------------

    def _follow(self, name: str, module: torch.nn.Module) -> None:
        def enter(*_: Any) -> None:
            self._modules.append((name, module))
            self._calls.pop(name, None)

        def leave(_: Any, arguments: Any, output: Any) -> None:
            if self._modules:
                self._modules.pop()
            for tensor in output if isinstance(output, (tuple, list)) else (output,):
                # If nested modules return the same tensor, the innermost module counts.
                if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor not in self._followed:
                    self._followed[tensor] = name
                    tensor.register_hook(arrive)

        def arrive(_: torch.Tensor) -> None:
            self._backward_of = name

        self._exits.callback(module.register_forward_pre_hook(enter).remove)
        self._exits.callback(module.register_forward_hook(leave, always_call=True).remove)

    def _place(self) -> str:
        if self._modules:
            return f"forward: {{}}, {self._modules[-1][0] or 'the model'}"
        if torch._C._current_graph_task_id() != -1:
            return f"backward: {{}}, {self._backward_of or 'the model'}"
        return f"{_OUTSIDE}: {{}}"

    def _name_matmul(self, weights: torch.Tensor) -> str:
        """The names of the module and the parameter; the number of the call if the weights are no parameter."""
        module_name, module = self._modules[-1] if self._modules else (_OUTSIDE, None)
        for name, parameter in _list_tensors(module):
            for tensor in find_plain(parameter):
                if tensor.device.type != "meta" and tensor.data_ptr() == weights.data_ptr():
                    return f"{module_name}.{name}" if module_name else name
        number = self._calls[module_name] = self._calls.get(module_name, -1) + 1
        return f"{module_name}.{number}" if module_name else str(number)

    # --- NaNs ---------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if not self._busy and not func.is_view and func.overloadpacket not in _UNDEFINED and not _is_unfinished(func):
            for result in results if isinstance(results, (tuple, list)) else (results,):
                self._check(self._place().format(func), result)
        return results

    def _check(self, place: str, tensor: Any) -> None:
        """Checks a tensor, or this rank's part of a DTensor: gathering it would be a collective that other ranks may never join."""
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.itemsize == 1:
            return
        for plain in find_plain(tensor):
            # FSDP keeps tensors whose memory it has freed.
            if not isinstance(tensor, AsyncCollectiveTensor) and plain.untyped_storage().nbytes():
                self._nans.append((place, plain.detach().isnan().any()))

    # --- Matmuls ------------------------------------------------------------------

    @contextlib.contextmanager
    def _unrecorded(self) -> Iterator[None]:
        """A context whose operations are not recorded."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _observe(self, x: torch.Tensor, weights: Any, offsets: torch.Tensor, y: torch.Tensor, recipe: str) -> None:
        if self._busy:
            return
        plain = weights.weights if isinstance(weights, QuantizedWeights) else weights
        layer = self._name_matmul(plain)
        if isinstance(weights, QuantizedWeights):
            is_stale = weights.compare()
            if is_stale is not None:
                self._stale.append((layer, is_stale))
        x, plain = (tensor.detach().to(torch.bfloat16) for tensor in (x, plain))
        with self._unrecorded():
            descends = (torch.diff(offsets, prepend=offsets.new_zeros(1)) < 0).any()
            # The sum of correct ends may equal the number of rows, too. Then they ascend, and are hardly all equal, which
            # would leave rows to the first group only.
            could_be_sizes = (offsets.sum() == x.shape[0]) & (offsets[-1] != x.shape[0])
            are_sizes = could_be_sizes & (descends | (offsets == offsets[0]).all())
            self._offsets.append((layer, descends | (offsets[-1] > x.shape[0]), are_sizes))
            if recipes.MIXES[recipe][0]:
                self._record_forward(layer, x, plain, offsets, y.detach())
        if y.grad_fn is not None and any(recipes.MIXES[recipe][1:]):
            # A hook of y would run before the hook by which FSDP2 gathers the weights again.
            place = y.output_nr
            y.grad_fn.register_prehook(
                lambda gradients: self._observe_gradient(layer, x, plain, offsets, gradients[place], recipe)
            )

    def _record_forward(
        self, layer: str, x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, y: torch.Tensor
    ) -> None:
        groups = Groups(offsets, x.shape[0])
        self.found.append((layer, "x", _statistics.of_rows(x, groups, by_column=False)))
        self.found.append((layer, "weights", _statistics.of_weights(weights, 1)))
        self.found.append((layer, "y", _of_rows_of_result(y, _bf16.compute_y(x, weights, offsets), groups)))

    def _observe_gradient(
        self,
        layer: str,
        x: torch.Tensor,
        weights: torch.Tensor,
        offsets: torch.Tensor,
        gradient: Optional[torch.Tensor],
        recipe: str,
    ) -> None:
        """Records the gradients. It computes them again, as autograd passes on their sums only."""
        if self._stopped or gradient is None or not weights.untyped_storage().nbytes():
            return
        with self._unrecorded():
            gradient = gradient.detach().contiguous()
            groups = Groups(offsets, x.shape[0])
            _, x_fp8, weights_fp8 = recipes.MIXES[recipe]
            leaf_x, leaf_weights = x.detach().requires_grad_(), weights.detach().requires_grad_()
            with torch.enable_grad(), torch.autocast(x.device.type, enabled=False):
                y = multiply(leaf_x, leaf_weights, offsets, recipe)
                grad_x, grad_weights = torch.autograd.grad(y, (leaf_x, leaf_weights), gradient)
            if x_fp8:
                self.found.append((layer, "grad_y", _statistics.of_rows(gradient, groups, by_column=False)))
                self.found.append((layer, "weights by row", _statistics.of_weights(weights, 2)))
                exact = _bf16.GRAD_X.run(gradient, weights, offsets)
                self.found.append((layer, "grad_x", _of_rows_of_result(grad_x, exact, groups)))
            if weights_fp8:
                self.found.append((layer, "x by column", _statistics.of_rows(x, groups, by_column=True)))
                self.found.append((layer, "grad_y by column", _statistics.of_rows(gradient, groups, by_column=True)))
                exact = _bf16.GRAD_WEIGHTS[find_layout(weights)].run(gradient, x, offsets)
                self.found.append((layer, "grad_weights", _statistics.of_result(grad_weights, exact, _sum_by_expert)))


#: Operations whose results are undefined until they are written, or outside of groups.
_UNDEFINED = {
    getattr(torch.ops.aten, name)
    for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "_grouped_mm")
}


#: Namespaces of operations whose results other processes write until they are awaited.
_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "fsdp", "symm_mem")


def _is_unfinished(func: Any) -> bool:
    return func.namespace in _COLLECTIVES and "wait_tensor" not in func.__name__


def _list_tensors(module: Optional[torch.nn.Module]) -> List[Tuple[str, torch.Tensor]]:
    """The parameters of a module, and FSDP's views of a flat parameter, which are attributes."""
    if module is None:
        return []
    attributes = [(name, value) for name, value in vars(module).items() if isinstance(value, torch.Tensor)]
    return [*module.named_parameters(recurse=False), *attributes]


def _of_rows_of_result(result: torch.Tensor, exact: torch.Tensor, groups: Groups) -> Statistics:
    return _statistics.of_result(result, exact, lambda values: groups.total(values.sum(1)))


def _sum_by_expert(values: torch.Tensor) -> torch.Tensor:
    return values.sum((1, 2))


# --- Records ----------------------------------------------------------------------


def _to_db(signal: float, noise: float) -> float:
    if math.isnan(signal) or math.isnan(noise):
        return math.nan
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _make_record(step: int, layer: str, operand: str, found: Statistics) -> Record:
    values: Dict[str, List[float]] = {name: tensor.tolist() for name, tensor in found.items()}
    signals, noises = values["signal"], values["noise"]
    # Experts without rows have zero results. Experts with rows and zero results have no noise either.
    used = [n > 0 for n in values["elements"]] if operand not in _RESULTS else [s != 0 for s in signals]

    def of_used(numbers: List[float]) -> List[Optional[float]]:
        return [number if use else None for number, use in zip(numbers, used)]

    decibels = of_used([_to_db(signal, noise) for signal, noise in zip(signals, noises)])
    record = Record(step, layer, operand, _to_db(sum(signals), sum(noises)), decibels)
    if operand in _RESULTS:
        return record
    elements = max(sum(values["elements"]), 1)
    return dataclasses.replace(
        record,
        amax=of_used(values["amax"]),
        scale_min=of_used(values["scale_min"]),
        scale_max=of_used(values["scale_max"]),
        underflow=sum(values["underflows"]) / elements,
        saturation=sum(values["saturated"]) / elements,
    )


_HEAD = ("layer", "operand", "amax", "scales", "underflow", "saturated", "SQNR dB", "least", "expert")


def _row(record: Record) -> Tuple[str, ...]:
    amax, *scales = ("" if number is None else f"{number:.3g}" for number in _find_extremes(record).values())
    least = [(-math.inf if math.isnan(db) else db, g) for g, db in enumerate(record.sqnr_db_of_expert) if db is not None]
    return (
        record.layer,
        record.operand,
        amax,
        " to ".join(scales) if all(scales) else "",
        "" if record.underflow is None else f"{record.underflow:.2%}",
        "" if record.saturation is None else f"{record.saturation:.2%}",
        f"{record.sqnr_db:.1f}",
        f"{min(least)[0]:.1f}" if least else "",
        str(min(least)[1]) if least else "",
    )


def _find_extremes(record: Record) -> Dict[str, Optional[float]]:
    """The extremes of a record over all experts."""
    found = {}
    for name in ("amax", "scale_min", "scale_max"):
        numbers = [value for value in getattr(record, name) or [] if value is not None]
        found[name] = (min if name == "scale_min" else max)(numbers) if numbers else None
    return found


def _make_writer(log_dir: str) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            f"inspect: log_dir is {log_dir!r}, but TensorBoard is not installed ({error}); install tensorboard, or leave "
            "log_dir out and print the report"
        ) from error
    return SummaryWriter(log_dir)


def _write(writer: Any, record: Record) -> None:
    figures = {"SQNR dB": record.sqnr_db, "underflow": record.underflow, "saturation": record.saturation, **_find_extremes(record)}
    for name, value in figures.items():
        if value is not None:
            writer.add_scalar(f"{record.layer}/{record.operand}/{name}", value, record.step)
