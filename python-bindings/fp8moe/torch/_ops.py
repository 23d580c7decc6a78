# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs as operators of torch. Schema, fake implementation and autograd follow from the manifest's signature."""

from __future__ import annotations

import copy
import hashlib
import json
import keyword
import os
import re
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.autograd import forward_ad

from .. import cache
from .._library import Error, InvalidArgumentError, UnsupportedError
from .._program import FoundCall, Program, _TorchCall
from ._checks import make_check
from .._tensors import _NAMES
from ..runtime import LoadedArtifact, load

_NAMESPACE = "fp8moe"
_GRADIENT = "grad_"
_KINDS = {"cpu": "cpu", "nvvm": "cuda", "rocdl": "cuda"}

_lock = threading.RLock()
_library = torch.library.Library(_NAMESPACE, "FRAGMENT")


class _Tensor(NamedTuple):
    """A buffer of the manifest. Entries of shape and strides are integers or {"value": i}; those of inputs may be open."""

    name: str
    dtype: torch.dtype
    shape: List[Any]
    strides: List[Any]
    #: Alignment of the address in bytes.
    align: int


def _argument(name: str, place: int) -> str:
    """A name that operator schemas accept: the given one, or one made from its position."""
    usable = re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and not keyword.iskeyword(name)
    return name if usable else f"input_{place}"


def _is_open(entry: Any) -> bool:
    return isinstance(entry, dict) and ("dim" in entry or "stride" in entry)


class Signature:
    """The tensors of a program, and the computation of its output shapes from its inputs."""

    def __init__(self, program: Dict[str, Any]) -> None:
        self.name: str = program["name"]
        self._values: List[Dict[str, Any]] = program["values"]
        self._buffers: List[Dict[str, Any]] = program["buffers"]
        self.inputs = self._tensors("input")
        self.outputs = self._tensors("output")
        #: For each input, its index among all buffers.
        self._places = [i for i, buffer in enumerate(self._buffers) if buffer["role"] == "input"]

    def without(self, names: Sequence[str]) -> "Signature":
        """This signature without some inputs, which must not determine shapes of outputs."""
        rest = copy.copy(self)
        rest.inputs = [tensor for tensor in self.inputs if tensor.name not in names]
        rest._places = [place for tensor, place in zip(self.inputs, self._places) if tensor.name not in names]
        return rest

    def _tensors(self, role: str) -> List[_Tensor]:
        return [
            _Tensor(b["name"], getattr(torch, _NAMES[b["dtype"]]), b["shape"], b["strides"], b["align"])
            for b in self._buffers
            if b["role"] == role
        ]

    @property
    def schema(self) -> str:
        """The schema in the syntax of torch.library."""
        names = [_argument(tensor.name, i) for i, tensor in enumerate(self.inputs)]
        inputs = ", ".join(f"Tensor {name}" for name in names)
        outputs = ", ".join("Tensor" for _ in self.outputs)
        return f"({inputs}) -> ({outputs})" if len(self.outputs) != 1 else f"({inputs}) -> {outputs}"

    def fake(self, *tensors: torch.Tensor) -> Any:
        """Outputs without data, for inputs without data. Sizes may be symbols.

        Raises InvalidArgumentError for inputs of another type, rank or extent.
        """
        known: Dict[int, Any] = {}
        by_place = dict(zip(self._places, tensors))

        def value(entry: Any) -> Any:
            if not isinstance(entry, dict):
                return entry
            index = entry["value"]
            if index not in known:
                known[index] = evaluate(self._values[index])
            return known[index]

        def evaluate(step: Dict[str, Any]) -> Any:
            op, args = step["op"], step["args"]
            if op == "dim":
                return by_place[args[0]].shape[value(args[1])]
            if op == "stride":
                return by_place[args[0]].stride(value(args[1]))
            if op not in _ARITHMETIC:
                raise Error(f"{self.name}: the shape of an output depends on '{op}', which is known on a device only")
            return _ARITHMETIC[op](*map(value, args))

        for tensor, expected in zip(tensors, self.inputs):
            self._check(tensor, expected, value)
        results = [
            torch.empty_strided(
                [value(n) for n in output.shape],
                [value(n) for n in output.strides],
                dtype=output.dtype,
                device=tensors[0].device,
            )
            for output in self.outputs
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def _check(self, tensor: torch.Tensor, expected: _Tensor, value: Callable[[Any], Any]) -> None:
        what = f"program '{self.name}': input '{expected.name}'"
        if tensor.dtype != expected.dtype:
            raise InvalidArgumentError(f"{what}: dtype is {tensor.dtype}, expected {expected.dtype}")
        if tensor.dim() != len(expected.shape):
            raise InvalidArgumentError(f"{what}: rank is {tensor.dim()}, expected {len(expected.shape)}")
        for i, extent in enumerate(expected.shape):
            if _is_open(extent):
                continue
            found, wanted = tensor.shape[i], value(extent)
            torch._check(found == wanted, lambda: f"{what}: dim {i} is {found}, expected {wanted}")


_ARITHMETIC: Dict[str, Callable[..., Any]] = {
    "const": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    # Sizes are not negative, so rounding down equals rounding towards zero.
    "div": lambda a, b: a // b,
    "rem": lambda a, b: a % b,
    "ceildiv": lambda a, b: (a + b - 1) // b,
    "max": lambda a, b: torch.sym_max(a, b),
    "min": lambda a, b: torch.sym_min(a, b),
}


#: Tags of all operators. Inductor must keep the strides of inputs, as a program accepts only certain strides.
TAGS: List[torch.Tag] = [torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides]
#: Additional tags of operators that CUDA graphs cannot capture.
CUDAGRAPH_UNSAFE: List[torch.Tag] = [torch.Tag.cudagraph_unsafe]


def define(name: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any], tags: Sequence[torch.Tag] = ()) -> None:
    """Makes an operator of torch, in the namespace `fp8moe`."""
    qualified = f"{_NAMESPACE}::{name}"
    torch.library.define(qualified, schema, tags=[*TAGS, *tags])
    torch.library.impl(qualified, ("cpu", "cuda"), run)
    torch.library.register_fake(qualified, fake)


def _take_any(tensors: Tuple[torch.Tensor, ...]) -> bool:
    return True


class Op:
    """A program as an operator, made by `as_op`. Calling the object calls the operator."""

    def __init__(
        self, artifact: LoadedArtifact, signature: Signature, kind: str, name: str, tags: Sequence[torch.Tag] = ()
    ) -> None:
        self.signature = signature
        #: Name in torch.ops.fp8moe, of the form "NAME_DIGEST".
        self.name = name
        self.qualified_name = f"{_NAMESPACE}::{name}"
        self._kind = kind
        #: Dispatch keys that remain below autograd for plain tensors of this kind, without modes.
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, kind.upper()))
        self._plain_keys: int = keys.add(torch._C.DispatchKey.ADInplaceOrView).raw_repr()
        self._chip = artifact.chip
        self._path = os.path.abspath(artifact.path)
        self._artifact = artifact  # keeps a temporary folder alive
        self._programs: Dict[torch.device, Program] = {}
        #: Guards of known calls, newest first, with these calls. A call gets a guard when it is found twice in a row by lookup, which
        #: `_found_last` records.
        self._recent: Tuple[Tuple[Callable[..., bool], _TorchCall], ...] = ()
        self._found_last: Optional[_TorchCall] = None
        #: Arguments of `differentiable`.
        self._backwards: Optional[Tuple[Union["Op", "Formula"], ...]] = None
        self._plans: List["_Plan"] = []
        self._chosen: Dict[Tuple[bool, ...], "_Chosen"] = {}
        #: Outputs whose gradients `_plans` read.
        self._differentiable: List[int] = []
        if artifact.device != "none":
            self._programs[torch.device(artifact.device)] = artifact.program(signature.name)
        define(name, signature.schema, self._run, signature.fake, tags)
        # register_autograd would add layers that take longer than a launch.
        _library.impl(self.qualified_name, self._dispatch, "Autograd", with_keyset=True)
        #: torch's own object for the operator, as selective checkpointing and opcheck need it.
        self.overload: Any = getattr(torch.ops.fp8moe, name).default

    def __call__(self, *tensors: torch.Tensor) -> Any:
        if not _is_compiling():
            results = self.call_directly(tensors)
            if results is not None:
                return results
            for tensor, expected in zip(tensors, self.signature.inputs):
                if not isinstance(tensor, torch.Tensor):  # torch's own message would print the whole object
                    raise TypeError(
                        f"{self.qualified_name}: input '{expected.name}' is of type {type(tensor).__name__}, expected a torch.Tensor; "
                        "torch.from_numpy makes one of an array"
                    )
        return self.overload(*tensors)

    def write(self, out: Sequence[torch.Tensor], *tensors: torch.Tensor) -> None:
        """Runs the program with its outputs in `out`, invisible to autograd and to tracers."""
        if any(type(tensor) not in PLAIN_TYPES or tensor.is_neg() for tensor in tensors):
            # Only the dispatcher can resolve such tensors, for example results of collectives that are still in flight.
            with torch.no_grad():
                results = self.overload(*tensors)
                for target, result in zip(out, results if isinstance(results, tuple) else (results,)):
                    target.copy_(result)
            return
        program = self._programs.get(tensors[0].device) or self._load(tensors[0].device)
        program(*tensors, out=tuple(out))

    def call_directly(
        self, tensors: Tuple[torch.Tensor, ...], fit: Callable[[Tuple[torch.Tensor, ...]], bool] = _take_any
    ) -> Any:
        """Runs the program without torch's dispatcher, which takes several times as long as the launches.

        Returns None if code traces, transforms or observes operations, as it would miss this call. Also returns None if the program is not
        loaded yet, or if new tensors do not `fit`.
        """
        # Eager steps spend their time here, so it makes one pass over the tensors, and few calls.
        if not past_dispatcher or is_watched():
            return None
        for check, call in self._recent:
            if check(*tensors):
                addresses = list(map(_address_of, tensors))
                break
        else:
            found = self._find_call(tensors, fit)
            if found is None:
                return None
            call, addresses = found
        return self.run_differentiable(lambda: call.run(addresses), tensors)

    def run_differentiable(self, run: Callable[[], Any], tensors: Tuple[torch.Tensor, ...]) -> Any:
        """The result of `run`, with gradients if any input requires one."""
        return _apply_past_wrapper(self, run, *tensors) if _is_grad_enabled() and _any_requires_grad(*tensors) else run()

    def _find_call(self, tensors: Tuple[torch.Tensor, ...], fit: Callable[[Tuple[torch.Tensor, ...]], bool]) -> Optional[FoundCall]:
        key: List[Any] = []
        addresses: List[int] = []
        try:
            for tensor in tensors:
                if type(tensor) not in PLAIN_TYPES or tensor.is_neg():  # the dispatcher resolves lazy negation
                    return None
                key += (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
                addresses.append(tensor.data_ptr())
        except RuntimeError:  # a tensor without strides or without memory
            return None
        program = self._programs.get(tensors[0].device)
        if program is None:
            return None
        call = program.torch_calls.get(tuple(key))
        if call is None:
            return program.find_torch_call(torch, tensors, fit)
        if call is self._found_last:
            check = make_check(tensors)
            if check is not None:
                self._recent = ((check, call), *self._recent[: _MAX_RECENT - 1])
        self._found_last = call
        return call, addresses

    def find_run(self, tensors: Tuple[torch.Tensor, ...]) -> Callable[..., Any]:
        """A function that runs the program on addresses of tensors laid out like these, invisible to autograd and to tracers."""
        program = self._programs.get(tensors[0].device) or self._load(tensors[0].device)
        found = program.find_torch_call(torch, tensors, _take_any)
        if found is None:
            raise InvalidArgumentError(f"{self.qualified_name}: the tensors have no memory")
        return found[0].run

    def __repr__(self) -> str:
        return f"<fp8moe operator {self.qualified_name}{self.signature.schema} for {self._chip}>"

    def run_within(self, *tensors: torch.Tensor) -> Any:
        """Runs the program from the implementation of another operator."""
        results = self.call_directly(tensors)
        return self._run(*tensors) if results is None else results

    def _run(self, *tensors: torch.Tensor) -> Any:
        program = self._programs.get(tensors[0].device) or self._load(tensors[0].device)
        found = program.find_torch_call(torch, tensors, _take_any)
        return found[0].run(found[1]) if found else program(*tensors)  # the call reports what is wrong

    def _dispatch(self, keyset: Any, *tensors: torch.Tensor) -> Any:
        """The operator's kernel for autograd, which the dispatcher calls first."""
        below = keyset & _below_autograd
        if is_forward_mode() and any(map(has_tangent, tensors)):
            # Below autograd, tangents would be lost and silently treated as zeros.
            raise Error(
                f"{self.qualified_name} has no gradient in forward mode (torch.func.jvp, torch.autograd.forward_ad); "
                "backward() and torch.autograd.grad give its gradients"
            )

        def run() -> Any:
            if below.raw_repr() == self._plain_keys:  # the next kernel would be _run
                return self._run(*tensors)
            with torch._C._AutoDispatchBelowAutograd():
                return self.overload.redispatch(below, *tensors)

        if _is_grad_enabled() and _any_requires_grad(*tensors):
            if is_transformed():
                raise Error(
                    f"{self.qualified_name} has no gradient in torch.func; backward() and torch.autograd.grad give its gradients"
                )
            return _Differentiable.apply(self, run, *tensors)
        return run()

    def _choose(self, needs: Tuple[bool, ...]) -> "_Chosen":
        """The backwards for gradients of these inputs. Results are cached, as each pass asks twice."""
        chosen = self._chosen.get(needs)
        if chosen is None:
            plans = _choose(self._plans, needs)
            saved = [i for plan in plans for kind, i in plan.arguments if kind == "saved"]
            chosen = self._chosen[needs] = _Chosen(plans, saved)
        return chosen

    def _save(self, ctx: Any, needs: Tuple[bool, ...], inputs: Tuple[torch.Tensor, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        tensors = inputs + outputs
        ctx.save_for_backward(*[tensors[i] for i in self._choose(needs).saved])
        ctx.strides = [tensor.stride() for tensor in tensors]
        if not self._plans:  # the backward reports it
            return
        if len(self._differentiable) < len(outputs):
            ctx.mark_non_differentiable(*[tensor for i, tensor in enumerate(outputs) if i not in self._differentiable])
        # With several gradients, missing ones become zeros if any other exists.
        ctx.set_materialize_grads(len(self._differentiable) > 1)

    def _compute_gradients(
        self, ctx: Any, needs: Tuple[bool, ...], gradients: Sequence[torch.Tensor]
    ) -> List[Optional[torch.Tensor]]:
        if not self._plans:
            raise Error(
                f"{self.qualified_name} has no gradient: declare programs that compute it with "
                "fp8moe.torch.differentiable, or call it on tensors that need none (gradients of grouped_mm and experts cannot be "
                "differentiated again)"
            )
        results: List[Optional[torch.Tensor]] = [None] * len(needs)
        if all(gradient is None for gradient in gradients):
            return results
        plans, places = self._choose(needs)
        if sum(needs) > 1:
            fewer = self._choose(find_asked(ctx, needs))
            # An operator with its own backward may read operands that were not saved.
            if set(fewer.saved) <= set(places):
                plans = fewer.plans
        saved = dict(zip(places, ctx.saved_tensors))
        for plan in plans:
            found = plan.run(
                # Saved-tensor hooks may restore tensors in another layout.
                *[
                    with_strides(gradients[i], ctx.strides[len(needs) + i]) if kind == "grad" else with_strides(saved[i], ctx.strides[i])
                    for kind, i in plan.arguments
                ]
            )
            for i, gradient in zip(plan.gradients, found if isinstance(found, (tuple, list)) else (found,)):
                if needs[i]:
                    results[i] = gradient
        return results

    def _load(self, device: torch.device) -> Program:
        """The program on a device where it was not called before."""
        if device.type != self._kind:
            raise UnsupportedError(
                f"{self.qualified_name} was compiled for {self._chip}, whose tensors are on '{self._kind}'; "
                f"input '{self.signature.inputs[0].name}' is on '{device}'"
            )
        with _lock:
            name = device.type if device.type == "cpu" else f"{'hip' if torch.version.hip else 'cuda'}:{device.index}"
            program = load(self._path, name).program(self.signature.name)
            return self._programs.setdefault(device, program)


#: Switch for tests and benchmarks, which compare both ways.
past_dispatcher = True

#: Types of tensors that own their data and do not intercept operations.
PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter))
_is_compiling = torch.compiler.is_compiling
_num_dispatch_modes = torch._C._len_torch_dispatch_stack
_num_function_modes = torch._C._len_torch_function_stack
is_transformed = torch._C._are_functorch_transforms_active
_is_profiled = torch._C._autograd._profiler_enabled
_tracing_state = torch._C._get_tracing_state
_is_grad_enabled = torch._C.is_grad_enabled
_any_requires_grad = torch._C._any_requires_grad
_below_autograd = torch._C._after_autograd_keyset
_address_of = torch.Tensor.data_ptr

#: Guarded calls per operator: layers of one size, with a gradient and without one.
_MAX_RECENT = 2


def is_forward_mode() -> bool:
    """Whether forward-mode differentiation is active, so that tensors may have tangents."""
    return getattr(forward_ad, "_current_level", -1) >= 0


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a tangent. Call it only if `is_forward_mode`."""
    return forward_ad.unpack_dual(tensor).tangent is not None


def is_watched() -> Any:
    """Whether any code traces, transforms, profiles or observes operations."""
    return _is_profiled() or is_traced()


def is_traced() -> Any:
    """Whether any code traces, transforms or observes torch's operations, from which other kernels would be hidden."""
    return (
        _num_dispatch_modes()
        or _num_function_modes()
        or is_transformed()
        or _tracing_state()
        or getattr(forward_ad, "_current_level", -1) >= 0
    )


def find_asked(ctx: Any, needs: Sequence[bool]) -> Tuple[bool, ...]:
    """Which of the first inputs of an autograd.Function need their gradients in this pass.

    `needs` says which inputs require one. torch.autograd.grad and `backward(inputs=...)` request some of them only. Zero-bubble
    pipelines, for example, have one pass for inputs and one for weights.
    """
    if _is_compiling():  # compiled autograd removes unrequested gradients as dead code
        return tuple(needs)
    return tuple([need and _is_asked(node) for need, (node, _) in zip(needs, ctx.next_functions)])


def _is_asked(node: Any) -> bool:
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:
        # torch raises for leaves that torch.autograd.grad was given, and outside of its engine, as in eager passes of compiled
        # autograd. Computing an unrequested gradient is correct, too.
        return True


class _Differentiable(torch.autograd.Function):
    """An operator with its gradients. `run` computes its result, below autograd."""

    @staticmethod
    def forward(ctx: Any, op: Op, run: Callable[[], Any], *tensors: torch.Tensor) -> Any:
        output = run()
        ctx.op = op
        op._save(ctx, ctx.needs_input_grad[2:], tensors, output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return (None, None, *ctx.op._compute_gradients(ctx, ctx.needs_input_grad[2:], gradients))


#: `_Differentiable.apply` without its overhead for torch.func, which `is_watched` has excluded.
_apply_past_wrapper: Callable[..., Any] = super(torch.autograd.Function, _Differentiable).apply


_ops: Dict[str, Op] = {}


def as_op(program: Program) -> Op:
    """The program as a torch operator in the namespace `fp8moe`. Equal artifacts give the same operator and name.

    It takes the tensors of `program.inputs`, returns those of `program.outputs`, both in order, and works under
    torch.compile. Autograd raises an error unless `differentiable` has declared its gradients.

    Raises TypeError if the argument is no program, and ValueError if the program has no inputs.
    """
    if not isinstance(program, Program):
        raise TypeError(
            f"as_op: program is of type {type(program).__name__}, expected an fp8moe.Program, as fp8moe.load(path).program(name) gives"
        )
    if not program.inputs:
        raise ValueError(f"program '{program.name}' has no inputs, which say on what device an operator runs")
    artifact: LoadedArtifact = program._artifact
    with open(os.path.join(artifact.path, "manifest.json"), "rb") as file:
        data = file.read()
    name = re.sub(r"\W", "_", program.name, flags=re.ASCII) + f"_{hashlib.sha256(data).hexdigest()[:16]}"
    with _lock:
        if name not in _ops:
            manifest = json.loads(data)
            (entry,) = (p for p in manifest["programs"] if p["name"] == program.name)
            kind = _KINDS[manifest["target"]["kind"]]
            _ops[name] = Op(artifact, Signature(entry), kind, name)
        return _ops[name]


def load_ops(request: cache.Request, names: Sequence[str]) -> Dict[str, Op]:
    """Operators of the named programs in the artifact of a cache request, which is compiled if needed."""
    artifact = load(cache.get(request), "cpu" if request.chip == "cpu" else "none")
    return {name: as_op(artifact.program(name)) for name in names}


def load_operators(folder: Union[str, "os.PathLike[str]"]) -> List[str]:
    """Makes the operators of all artifacts in a folder and below, and returns their names.

    Such folders are the compile cache, and folders for FP8MOE_ARTIFACTS. Call it before loading a program that another process
    exported, compiled ahead of time (AOTInductor) or pickled as a graph. Those programs call operators by names that follow from
    their artifacts. An artifact is code: load only artifacts that you trust.

    Raises ValueError if there is no artifact. Other errors are those of fp8moe.load.
    """
    names = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))  # skips scratch folders of running processes
        if "manifest.json" in files:
            artifact = load(path, "none")
            names += [as_op(artifact.program(name)).qualified_name for name in artifact.programs]
    if not names:
        raise ValueError(f"load_operators: there is no artifact in '{os.fspath(folder)}', expected what the compile cache or prepare -o has written")
    return names


class Formula(NamedTuple):
    """Gradients in torch operations. Names of inputs and outputs are those of a program's tensors."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    run: Callable[..., Any]


class _Plan(NamedTuple):
    """A call of a backward."""

    run: Callable[..., Any]
    #: For each input, ("grad", index of an incoming gradient) or ("saved", index of a saved tensor).
    arguments: List[Tuple[str, int]]
    #: For each output, the input of the forward whose gradient it is.
    gradients: List[int]


class _Chosen(NamedTuple):
    """Selected backwards, and the inputs and outputs of the forward that they read, in the order of their arguments."""

    plans: List[_Plan]
    saved: List[int]


def differentiable(forward: Op, backwards: Sequence[Union[Op, Formula]]) -> Op:
    """Declares programs, or formulas, that compute the gradients of `forward`, and returns `forward`.

    Operands are matched by name. Input "x" of a backward is the input or output "x" of the forward. Input "grad_y" is the
    gradient of output "y", and output "grad_x" is the gradient of input "x". A backward pass runs the program that gives all
    requested gradients and the fewest others. If none gives all, several run, in order of the number of gradients that they give.

    Inputs of the forward whose gradient no backward computes get none. The gradients cannot be differentiated again.

    Raises TypeError for arguments that are no operators, and ValueError if names, types or ranks do not fit. Also raises
    ValueError if `forward` has other backwards already.
    """
    if not isinstance(forward, Op):
        raise TypeError(f"differentiable: forward is of type {type(forward).__name__}, expected what as_op returns")
    for backward in backwards:
        if not isinstance(backward, (Op, Formula)):
            raise TypeError(
                f"differentiable: a backward is of type {type(backward).__name__}, expected what as_op returns, or a Formula"
            )
    with _lock:
        if forward._backwards is not None:
            if forward._backwards == tuple(backwards):
                return forward
            raise ValueError(f"{forward.qualified_name} has other backwards already: {list(forward._backwards)}")
        plans = [_plan(forward.signature, backward) for backward in backwards]
        if not plans:
            raise ValueError(f"{forward.qualified_name}: no backward is given")
        forward._plans = plans
        forward._differentiable = sorted({i for plan in plans for kind, i in plan.arguments if kind == "grad"})
        forward._chosen = {}
        forward._backwards = tuple(backwards)
        return forward


def with_strides(tensor: torch.Tensor, strides: Tuple[int, ...]) -> torch.Tensor:
    """The tensor with these strides. Gradients from autograd may be expanded or transposed."""
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _choose(plans: Sequence[_Plan], needs: Sequence[bool]) -> List[_Plan]:
    wanted = {i for i, need in enumerate(needs) if need and any(i in plan.gradients for plan in plans)}
    chosen = []
    while wanted:
        best = min(plans, key=lambda plan: (-len(wanted & set(plan.gradients)), len(plan.gradients)))
        chosen.append(best)
        wanted -= set(best.gradients)
    return chosen


def _plan(forward: Signature, backward: Union[Op, Formula]) -> _Plan:
    inputs = [tensor.name for tensor in forward.inputs]
    outputs = [tensor.name for tensor in forward.outputs]
    tensors = {tensor.name: tensor for tensor in (*forward.inputs, *forward.outputs)}
    if isinstance(backward, Op):
        name, run = backward.signature.name, backward.__call__
        taken = [tensor.name for tensor in backward.signature.inputs]
        given = [tensor.name for tensor in backward.signature.outputs]
    else:
        name, taken, given, run = backward.name, list(backward.inputs), list(backward.outputs), backward.run

    arguments: List[Tuple[str, int]] = []
    #: For each tensor of the backward, the tensor of the forward that must have the same type and rank.
    like: List[str] = []
    for argument in taken:
        of = argument[len(_GRADIENT) :]
        if argument in tensors:
            arguments.append(("saved", [*inputs, *outputs].index(argument)))
            of = argument
        elif argument.startswith(_GRADIENT) and of in outputs:
            arguments.append(("grad", outputs.index(of)))
        else:
            raise ValueError(
                f"input '{argument}' of '{name}' is neither a tensor of '{forward.name}' "
                f"({', '.join(tensors)}) nor the gradient of one of its outputs, as {_GRADIENT}{outputs[0]}"
            )
        like.append(of)
    gradients = []
    for result in given:
        of = result[len(_GRADIENT) :]
        if not result.startswith(_GRADIENT) or of not in inputs:
            raise ValueError(
                f"output '{result}' of '{name}' is not the gradient of an input of '{forward.name}', "
                f"as {', '.join(_GRADIENT + name for name in inputs)}"
            )
        gradients.append(inputs.index(of))
        like.append(of)
    if isinstance(backward, Op):
        for tensor, of in zip((*backward.signature.inputs, *backward.signature.outputs), like):
            _require_like(tensor, name, tensors[of], forward.name)
    return _Plan(run, arguments, gradients)


def _require_like(tensor: _Tensor, program: str, like: _Tensor, of: str) -> None:
    if (tensor.dtype, len(tensor.shape)) != (like.dtype, len(like.shape)):
        raise ValueError(
            f"'{tensor.name}' of '{program}' is {tensor.dtype} of rank {len(tensor.shape)}, but '{like.name}' of "
            f"'{of}' is {like.dtype} of rank {len(like.shape)}"
        )
