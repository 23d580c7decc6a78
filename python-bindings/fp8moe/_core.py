# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Building and reading IR: the implementation of fp8moe.ir, and the base of the generated fp8moe.attributes and fp8moe.ops."""

from __future__ import annotations

import contextlib
import enum
import itertools
import operator
import os
import sys
import threading
from typing import Any, ClassVar, Dict, Iterator, List, Literal, Mapping, Optional
from typing import Sequence, Tuple, Type as Class, TypeVar, Union, cast, overload

from . import _mlir
from ._mlir import Attribute as Attribute
from ._mlir import Block as Block
from ._mlir import Location as Location
from ._mlir import Operation as Operation
from ._mlir import TensorType as TensorType
from ._mlir import Type as Type
from ._mlir import Value as Value

#: Element types of tensors. The target determines the encoding of "e4m3" and "e5m2".
ElementName = Literal[
    "e4m3", "e5m2", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU",
    "bf16", "f16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "index",
]  # fmt: skip

# --- The current context and block of a thread ------------------------------------------------


class _Current(threading.local):
    def __init__(self) -> None:
        self.contexts: List[_mlir.Context] = []
        self.blocks: List[Block] = []


_current = _Current()
_default_lock = threading.Lock()
_default_context: Optional[_mlir.Context] = None


def _after_fork() -> None:
    """Replaces the lock in a forked process, because a thread that does not exist there may hold it."""
    global _default_lock
    _default_lock = threading.Lock()
    _mlir.renew_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Context(_mlir.Context):
    """Owner of types, attributes and modules. By default all threads share one; `with Context():` makes another one current."""

    def __enter__(self) -> "Context":
        _current.contexts.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _current.contexts.pop()


def current_context() -> _mlir.Context:
    global _default_context
    if _current.blocks:
        return _current.blocks[-1].context
    if _current.contexts:
        return _current.contexts[-1]
    with _default_lock:
        if _default_context is None:
            _default_context = Context()
        return _default_context


def current_block() -> Block:
    """The block that new operations are appended to."""
    if not _current.blocks:
        raise ValueError(
            "operations are built inside a function: with module.function(...) as f:"
        )
    return _current.blocks[-1]


@contextlib.contextmanager
def inside(block: Block) -> Iterator[Block]:
    """Makes `block` the block that new operations are appended to."""
    _current.blocks.append(block)
    try:
        yield block
    finally:
        _current.blocks.pop()


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def caller_location(context: _mlir.Context) -> Location:
    """The source location of the call into this package."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    column = 1
    if hasattr(frame.f_code, "co_positions"):
        positions = frame.f_code.co_positions()
        entry = next(itertools.islice(positions, frame.f_lasti // 2, None), None)
        if entry and entry[2] is not None:
            column = entry[2] + 1
    name = frame.f_code.co_filename
    return Location.file(context, name, frame.f_lineno, column)


# --- Types ----------------------------------------------------------------------


def element(name: ElementName, context: Optional[_mlir.Context] = None) -> Type:
    """The element type with this name."""
    return Type.element(context or current_context(), name if isinstance(name, str) else repr(name))


def _order_of(layout: Any) -> List[int]:
    if isinstance(layout, (list, tuple)):
        with contextlib.suppress(TypeError):
            return [operator.index(dim) for dim in layout]
    raise TypeError(
        "a layout is an attribute such as StridedEncoding, the order of the dimensions "
        f"such as [1, 0], or None; found {layout!r}"
    )


def _extent_of(extent: Any) -> Optional[int]:
    if extent is None:
        return None
    try:
        value = operator.index(extent)
    except TypeError:
        raise TypeError(f"an extent is an integer or None, found {extent!r}") from None
    if not 0 <= value < 2**63:
        raise ValueError(
            f"an extent is at least 0 and below 2**63, or None if it is unknown; found {value}"
        )
    return value


def tensor(
    shape: Sequence[Optional[int]],
    element_type: Union[ElementName, Type],
    layout: Union[Attribute, Sequence[int], None] = None,
    context: Optional[_mlir.Context] = None,
) -> TensorType:
    """A tensor type. Extents of None are known at run time only.

    The layout is an attribute such as StridedEncoding, the order of the dimensions from outermost
    to innermost, or None for dense row-major.
    """
    if isinstance(element_type, Type):
        context = context or element_type.context
    context = context or current_context()
    if not isinstance(element_type, Type):
        element_type = element(element_type, context)
    if layout is not None and not isinstance(layout, Attribute):
        order = Attribute.i64_array(context, _order_of(layout))
        layout = Attribute.of_dialect(context, "strided", {"order": order})
    return TensorType.get([_extent_of(extent) for extent in shape], element_type, layout)


# --- Attributes -----------------------------------------------------------------


class Keyword(str, enum.Enum):
    """Base of the dialect's enums. Values are the keywords of the textual IR."""

    def __str__(self) -> str:
        return str(self.value)


def keyword(mnemonic: str, cls: Class[Keyword], value: str) -> Attribute:
    try:
        text = cls(value).value
    except ValueError:
        known = ", ".join(case.value for case in cls)
        raise ValueError(f"{cls.__name__} is one of {known}; found {value!r}") from None
    return Attribute.of_dialect(current_context(), mnemonic, {"value": text})


def i64(value: int) -> Attribute:
    return Attribute.of(current_context(), int(value))


def i64_array(values: Sequence[int]) -> Attribute:
    try:
        numbers = [operator.index(value) for value in values]
    except TypeError:
        raise TypeError(f"expected a sequence of integers, such as [0, 1]; found {values!r}") from None
    return Attribute.i64_array(current_context(), numbers)


def boolean(value: bool) -> Attribute:
    return Attribute.of(current_context(), bool(value))


def unit(is_set: bool) -> Optional[Attribute]:
    return Attribute.unit(current_context()) if is_set else None


def type_attribute(value: Union[Type, str]) -> Attribute:
    if not isinstance(value, Type):
        value = element(cast(ElementName, value))
    return Attribute.of(value.context, value)


_A = TypeVar("_A", bound="DialectAttribute")


class DialectAttribute(Attribute):
    """Base of the generated classes in fp8moe.attributes."""

    MNEMONIC: ClassVar[str]

    @classmethod
    def _wrap(cls: Class[_A], attribute: Attribute) -> _A:
        """`attribute` as an object of this class, whose mnemonic it must have."""
        self = cls.__new__(cls)
        Attribute.__init__(self, attribute)
        return self

    def _build(self, parameters: Mapping[str, Any], context: Optional[_mlir.Context]) -> None:
        for value in parameters.values():
            for entry in value if isinstance(value, (list, tuple)) else [value]:
                if context is None and isinstance(entry, Attribute):
                    context = entry.context
        context = context or current_context()
        converted = {
            name: Attribute.i64_array(context, list(value))
            if isinstance(value, (list, tuple)) and not any(isinstance(entry, Attribute) for entry in value)
            else value
            for name, value in parameters.items()
        }
        built = Attribute.of_dialect(context, self.MNEMONIC, converted)
        Attribute.__init__(self, built)

    def _parameter(self, name: str) -> Any:
        value = self.parameters.get(name)
        return tuple(value) if isinstance(value, list) else value

    def __repr__(self) -> str:
        return str(self)


def register_attribute(cls: Class[_A]) -> Class[_A]:
    """Makes the bindings return attributes with this class's mnemonic as its objects."""
    _mlir.attribute_classes[cls.MNEMONIC] = cls
    return cls


# --- Operations -----------------------------------------------------------------

_O = TypeVar("_O", bound="OpView")


class OpView(Operation):
    """Base of the generated classes in fp8moe.ops."""

    OPERATION_NAME: ClassVar[str]
    #: Kinds of operands and results: "one", "optional" or "variadic".
    OPERAND_KINDS: ClassVar[Tuple[str, ...]] = ()
    RESULT_KINDS: ClassVar[Tuple[str, ...]] = ()
    HAS_OPERAND_SEGMENTS: ClassVar[bool] = False

    @classmethod
    def _wrap(cls: Class[_O], operation: Operation) -> _O:
        self = cls.__new__(cls)
        Operation.__init__(self, operation)
        return self

    def _operands_of(self, index: int) -> Tuple[Value, ...]:
        segments = None
        if self.HAS_OPERAND_SEGMENTS:
            segments = self.attributes["operandSegmentSizes"].value
        return _group(self.operands, self.OPERAND_KINDS, index, segments)

    def _operand_one(self, index: int) -> Value:
        return self._operands_of(index)[0]

    def _operand_optional(self, index: int) -> Optional[Value]:
        return next(iter(self._operands_of(index)), None)

    _operand_variadic = _operands_of

    def _result_one(self, index: int) -> Value:
        return _group(self.results, self.RESULT_KINDS, index)[0]

    def _result_variadic(self, index: int) -> Tuple[Value, ...]:
        return _group(self.results, self.RESULT_KINDS, index)


def _group(
    values: Tuple[Value, ...],
    kinds: Tuple[str, ...],
    index: int,
    segments: Optional[Sequence[int]] = None,
) -> Tuple[Value, ...]:
    """The values of entry `index` of `kinds`. Without segments, all entries that are not "one" have equal sizes."""
    if segments is None:
        ones = kinds.count("one")
        others = len(kinds) - ones
        size = (len(values) - ones) // others if others else 0
        segments = [1 if kind == "one" else size for kind in kinds]
    start = sum(segments[:index])
    return values[start : start + segments[index]]


def register_operation(cls: Class[_O]) -> Class[_O]:
    """Makes the bindings return operations with this class's name as its objects."""
    _mlir.operation_classes[cls.OPERATION_NAME] = cls
    return cls


_Group = Union[None, Value, Sequence[Value]]
_Types = Union[None, Type, Sequence[Type]]


def create(
    cls: Class[_O],
    operands: Sequence[_Group],
    attributes: Dict[str, Any],
    results: Sequence[_Types],
    loc: Optional[Location],
) -> _O:
    """Builds an operation of a registered class in the current block."""
    block = current_block()
    groups: List[List[Value]] = []
    for group in operands:
        if group is None:
            groups.append([])
        else:
            groups.append([group] if isinstance(group, Value) else list(group))
    if cls.HAS_OPERAND_SEGMENTS:
        sizes = [len(group) for group in groups]
        segments = Attribute.i32_array(block.context, sizes)
        attributes = {**attributes, "operandSegmentSizes": segments}
    types: List[Type] = []
    for entry in results:
        if entry is not None:
            types += [entry] if isinstance(entry, Type) else list(entry)
    operation = block.create(
        cls.OPERATION_NAME,
        [value for group in groups for value in group],
        None if None in results else types,
        attributes,
        [],
        loc or caller_location(block.context),
    )
    return cast(_O, operation)


def operation(
    name: str,
    operands: Sequence[Value] = (),
    results: Optional[Sequence[Type]] = (),
    attributes: Optional[Dict[str, Any]] = None,
    regions: Sequence[Sequence[Type]] = (),
    loc: Optional[Location] = None,
) -> Operation:
    """Builds an operation of any dialect in the current block.

    With results None, their types are inferred. Each entry of `regions` makes a region with one block, whose arguments
    have these types. Fill it inside `with inside(op.regions[i][0]):`.
    """
    block = current_block()
    return block.create(
        name,
        list(operands),
        None if results is None else list(results),
        attributes or {},
        [list(types) for types in regions],
        loc or caller_location(block.context),
    )


# --- Modules and functions ------------------------------------------------------


class Function:
    """A function under construction, made by `Module.function`."""

    def __init__(self, module: "Module", name: str, inputs: Mapping[str, Type], loc: Optional[Location]):
        self._location = loc or caller_location(module.context)
        self._inputs = list(inputs.values())
        attributes = {
            "sym_name": name,
            "function_type": Type.function(module.context, self._inputs, []),
        }
        if inputs:
            attributes["arg_attrs"] = [{"fp8moe.name": key} for key in inputs]
        self.operation = module.body.create(
            "func.func", [], [], attributes, [self._inputs], self._location
        )
        self._block = self.operation.regions[0][0]
        #: The function's arguments, in order.
        self.arguments: Tuple[Value, ...] = self._block.arguments
        self._is_returned = False

    def __enter__(self) -> "Function":
        _current.blocks.append(self._block)
        return self

    def __exit__(self, exception: object, *rest: object) -> None:
        _current.blocks.pop()
        is_valid = False
        try:
            if exception is None:
                if not self._is_returned:
                    self.returns()
                self.operation.verify()
                is_valid = True
        finally:
            if not is_valid:  # leaves the module as it was before the function
                _mlir.discard(self.operation)

    def returns(self, /, *values: Value, **named: Value) -> None:
        """Ends the function. Names of results are their names in the artifact."""
        if self._is_returned:
            raise ValueError("the function has returned already")
        if values and named:
            raise ValueError("name all results or none")
        results = list(values) + list(named.values())
        context = self._block.context
        types = [value.type for value in results]
        # One call sets the type and the names, since the operation would be invalid in between.
        self._is_returned = True
        _mlir.set_function_results(
            self.operation,
            Type.function(context, self._inputs, types),
            [{"fp8moe.name": key} for key in named],
        )
        self._block.create("func.return", results, [], {}, [], caller_location(context))


_Op = TypeVar("_Op", bound=Operation)


class Module(_mlir.Module):
    """A module of IR."""

    def __init__(self, context: Optional[_mlir.Context] = None, loc: Optional[Location] = None):
        context = context or (loc.context if loc else current_context())
        super().__init__(loc or caller_location(context))

    @classmethod
    def _wrap(cls, module: _mlir.Module) -> "Module":
        self = cls.__new__(cls)
        _mlir.Module.__init__(self, module)
        return self

    @classmethod
    def parse(
        cls,
        source: Union[str, bytes],
        name: str = "<string>",
        context: Optional[_mlir.Context] = None,
    ) -> "Module":
        """Reads text, or trusted bytecode. Locations use `name` as the file."""
        context = context or current_context()
        return cls._wrap(_mlir.Module.parse_source(context, source, name))

    @classmethod
    def parse_file(
        cls, path: Union[str, "os.PathLike[str]"], context: Optional[_mlir.Context] = None
    ) -> "Module":
        """Reads a file with text or bytecode."""
        with open(path, "rb") as file:
            return cls.parse(file.read(), os.fspath(path), context)

    def clone(self) -> "Module":
        """A copy of the module in the same context."""
        return Module._wrap(self.copy())

    def __copy__(self) -> "Module":
        return self.clone()

    def __deepcopy__(self, memo: object) -> "Module":
        return self.clone()

    def __reduce__(self) -> Any:
        return Module.parse, (self.bytecode(), "<pickle>")

    def function(self, name: str, /, **inputs: Type) -> Function:
        """Begins a public function, which becomes a program of the artifact:

            with module.function("f", x=ir.tensor([None, 8], "bf16")) as f:
                (x,) = f.arguments
                f.returns(y=ops.contiguous(x))
        """
        return Function(self, name, inputs, None)

    @property
    def target(self) -> Optional[str]:
        """The target chip that the module names, if any."""
        found = self.operation.attributes.get("fp8moe.target")
        return None if found is None else found.parameters["chip"]

    @target.setter
    def target(self, chip: Optional[str]) -> None:
        attributes = self.operation.attributes
        if chip is not None:
            parameters = {"chip": chip}
            attributes["fp8moe.target"] = Attribute.of_dialect(self.context, "target", parameters)
        elif "fp8moe.target" in attributes:
            del attributes["fp8moe.target"]

    def verify(self) -> None:
        """Raises CompilerError if the module is invalid."""
        self.operation.verify()

    @overload
    def walk(self, cls: Class[_Op]) -> Iterator[_Op]: ...

    @overload
    def walk(self, cls: None = None) -> Iterator[Operation]: ...

    def walk(self, cls: Any = None) -> Iterator[Any]:
        """The operations in textual order, or only those of a class."""
        for found in _walk(self.operation):
            if cls is None or isinstance(found, cls):
                yield found

    def __str__(self) -> str:
        return str(self.operation)

    def __repr__(self) -> str:
        names = (inner.attributes.get("sym_name") for inner in self.body.operations)
        return f"<fp8moe module: {', '.join(str(name.value) for name in names if name)}>"


def _walk(operation_: Operation) -> Iterator[Operation]:
    yield operation_
    for region in operation_.regions:
        for block in region:
            for inner in block.operations:
                yield from _walk(inner)
