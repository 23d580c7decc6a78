# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tools of the project from Python: python -m fp8moe compile|run|opt|report|advise|prepare|cache|doctor.

The main options of fp8moe-compile and fp8moe-run have the same names and meanings here. docs/users/python.md
says what is left out or differs. opt takes a pipeline or passes, and none of the other options of fp8moe-opt.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import __version__, _advise, _inputs, _prepare_model, _safetensors
from ._folder import write
from ._library import Error
from ._prepare_model import put_all, split
from ._program import Program
from .runtime import find_folders, load

if TYPE_CHECKING:
    from ._cache_entries import Entry
    from .cache import Request


def _read_module(path: str) -> Any:
    from .ir import Module

    if path == "-":
        return Module.parse(sys.stdin.buffer.read(), "<stdin>")
    return Module.parse_file(path)


def _write(path: str, data: bytes) -> None:
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    write(path, [data])


_CARD_HELP = "the card whose times the report predicts, such as h100; what is compiled is the same"


# --- compile --------------------------------------------------------------------


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", nargs="?", default="-", help="IR, text or bytecode")
    parser.add_argument("--target", action="append", default=[], metavar="CHIP",
                        help="compile for this chip (may be repeated)")
    parser.add_argument("--default-target", metavar="CHIP",
                        help="compile for this chip if neither --target nor the module says")
    parser.add_argument("-o", dest="output", help="the folder of the artifacts; with --emit a file")
    parser.add_argument("--emit", help="one stage: tensor, kernel, mlir, llvm, asm, ptx, cubin, hsaco, so")
    # Whole options, since nargs="?" would consume the input as the format.
    parser.add_argument("--report", "--report=text", dest="report", action="store_const", const="text",
                        help="print what was done")
    parser.add_argument("--report=json", dest="report", action="store_const", const="json", help="the same as data")
    parser.add_argument("--card", metavar="NAME", help=_CARD_HELP)
    parser.add_argument("--tokens", type=int, help="the token count of the report, and what an unknown number of rows counts as "
                        "when precision is decided")
    parser.add_argument("--ptxas", help="the ptxas that makes cubins")
    parser.add_argument("--precision-policy", default="cost", metavar="POLICY",
                        help="policy that decides which undecided matmuls become FP8: cost, torchao, all or none")
    parser.add_argument("--precision-recipe", default="rowwise", metavar="RECIPE",
                        help="scales of these matmuls: rowwise, tensorwise or mxfp8")
    parser.add_argument("--precision-filter", action="append", default=[], metavar="TEXT",
                        help="leave matmuls in bf16 whose names contain this text (may be repeated)")
    parser.add_argument("--precision-for", default="", metavar="CHIP",
                        help="decide by the predicted times of this chip or card")
    parser.add_argument("--optimize-layouts", type=_boolean, default=True, metavar="BOOL",
                        help="remove copies that only change an order")
    parser.add_argument("--list-targets", action="store_true", help="print the known chips")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"'{text}' is neither true nor false")
    return text.lower() in ("true", "1")


def _count(text: str) -> int:
    try:
        if (count := int(text)) >= 0:
            return count
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 on")


def _compile(options: argparse.Namespace) -> None:
    from . import compiler

    if options.list_targets:
        for chip, description in compiler.targets().items():
            print(f"{chip:10} {description}")
        return
    _check_compile(options)
    module = _read_module(options.input)
    targets = split(options.target) or _default_target(module, options.default_target)
    words = {
        "optimize_layouts": options.optimize_layouts,
        "ptxas": options.ptxas,
        "tokens": options.tokens,
        "precision": compiler.Precision(options.precision_policy, options.precision_recipe,
                                        split(options.precision_filter), options.precision_for),
    }
    if options.emit:
        if len(targets) > 1:
            raise Error(f"--emit shows one target, but there are {len(targets)}")
        _write(options.output or "-", compiler.emit(module, options.emit, targets[0] if targets else None, **words))
        return
    artifact = compiler.compile(module, targets, options.output, card=options.card, **words)
    if options.report:
        _print_report(artifact.report, options.report == "json")


def _print_report(report: Any, as_json: bool) -> None:
    print(json.dumps(report.data, indent=1) + "\n" if as_json else report, end="")


def _check_compile(options: argparse.Namespace) -> None:
    """Checks options as checkOptions of fp8moe-compile does, where the compiler itself does not."""
    from . import compiler

    known = compiler.targets()
    if options.default_target and options.default_target not in known:  # also if the module names its target
        raise Error(f"unknown target '{options.default_target}'; known targets: {', '.join(known)}")
    if options.emit and options.report:
        raise Error("--report describes artifacts; use it without --emit")
    if options.card and not options.report:
        raise Error("--card names the card whose times --report predicts; add --report")
    if options.emit:
        return
    if not options.output:
        raise Error("nothing to do: give -o FOLDER for artifacts, or --emit=KIND")
    if options.output == "-":
        raise Error("-o -: an artifact is a folder; --emit=KIND writes one file")


def _default_target(module: Any, chip: Optional[str]) -> List[str]:
    """`chip`, unless the module names its target."""
    return [chip] if chip and module.target is None else []


# --- opt ------------------------------------------------------------------------


def _add_opt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", nargs="?", default="-", help="IR, text or bytecode")
    parser.add_argument("-o", dest="output", default="-", help="where to write the IR")
    parser.add_argument("--pass-pipeline", metavar="PIPELINE",
                        help="for example 'builtin.module(canonicalize,cse)'; passes on modules "
                        "may also be given by themselves: --fp8moe-optimize-layouts")
    parser.add_argument("--emit-bytecode", action="store_true", help="write bytecode")


def _opt(options: argparse.Namespace) -> None:
    if options.pass_pipeline and options.rest:
        raise Error("--pass-pipeline and single passes exclude each other")
    names = []
    for argument in options.rest:
        if not argument.startswith("--"):
            raise Error(f"'{argument}' is not an option")
        name, _, pass_options = argument[2:].partition("=")
        names.append(f"{name}{{{pass_options}}}" if pass_options else name)
    module = _read_module(options.input)
    pipeline = options.pass_pipeline or f"builtin.module({','.join(names)})"
    module.run(pipeline)
    data = module.bytecode() if options.emit_bytecode else f"{module}\n".encode()
    _write(options.output, data)


# --- report ---------------------------------------------------------------------


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", help="IR, or the folder of an artifact")
    parser.add_argument("--target", action="append", default=[], metavar="CHIP",
                        help="for IR: compile for this chip")
    parser.add_argument("--card", metavar="NAME", help=f"for IR: {_CARD_HELP}")
    parser.add_argument("--tokens", type=int, help="for IR: the token count of the report")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print data instead of text")
    output.add_argument("--html", metavar="FILE", help="for IR: write a page with bytes, tiles over tokens and a roofline")


def _report(options: argparse.Namespace) -> None:
    if options.html and (options.input == "-" or os.path.isdir(options.input)):
        raise Error("--html plots tiles over tokens, for which it needs a file of IR; found a folder of artifacts or standard input")
    if os.path.isdir(options.input):
        for name in ("target", "card", "tokens"):
            if getattr(options, name) not in (None, []):
                raise Error(f"--{name}: the artifact is compiled already; it belongs to IR")
        _report_folder(options.input, options.json)
        return
    from . import compiler

    artifact = compiler.compile(
        _read_module(options.input), split(options.target), tokens=options.tokens, card=options.card
    )
    if options.html:
        from . import _html_report

        _html_report.write(options.html, artifact.report, options.input)
        return
    _print_report(artifact.report, options.json)


def _report_folder(folder: str, as_json: bool) -> None:
    """Prints the decisions in the manifests; needs no compiler."""
    targets = []
    for path in find_folders(folder):
        artifact = load(path, device="none")  # validates the artifact
        with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        if as_json:
            targets.append({"chip": artifact.chip, "decisions": manifest["decisions"]})
            continue
        print(f"{path}: {artifact.chip}, {manifest['producer']}")
        for name in artifact.programs:
            print(f"  {artifact.program(name)}")
        for decision in manifest["decisions"]:
            _print_decision(decision)
    if as_json:
        print(json.dumps({"targets": targets}, indent=1))


def _print_decision(decision: Dict[str, Any]) -> None:
    tile = decision.get("tile")
    texts = [f"line {decision['line']}" if "line" in decision else ""]
    if tile:
        fields = ", ".join(f"{key} = {value}" for key, value in tile.items() if key != "kind")
        texts.append(f"{tile['kind']}<{fields}>")
    if "predicted_ns" in decision:
        texts.append(f"{decision['predicted_ns'] / 1e3:.1f} us")
    print(f"  {decision['op']:34} " + "  ".join(filter(None, texts)))
    print(f"    {', '.join(decision['reads'])} -> {', '.join(decision['writes'])}")
    print(f"    {decision['reason']}")


# --- run ------------------------------------------------------------------------


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", help="the folder of an artifact, or IR, which is compiled first")
    parser.add_argument("--program", help="the program to run")
    parser.add_argument("--target", metavar="CHIP", help="compile IR for this chip (default: what the module says, else cpu)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:N or hip:N")
    parser.add_argument("--inputs", metavar="FILE", help="read the inputs from this safetensors file")
    parser.add_argument("--outputs", metavar="FILE", help="write the outputs to this safetensors file")
    parser.add_argument("--random", type=_count, metavar="SEED", help="make random inputs; with --inputs those that the file lacks")
    parser.add_argument("--tokens", type=_count, help="with --random: what every '?' of an input is; where groups are padded, the rows of all groups")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=AxB",
                        help="with --random: the shape of one input")
    parser.add_argument("--save-inputs", metavar="FILE", help="write the inputs that were used")
    parser.add_argument("--repeat", type=_count, default=1, metavar="N", help="run N times, report the shortest time")
    parser.add_argument("--describe", action="store_true", help="print buffers and launches as JSON")


def _shapes(texts: Sequence[str]) -> Dict[str, List[int]]:
    shapes: Dict[str, List[int]] = {}
    for text in texts:
        name, equals, extents = text.partition("=")
        if name in shapes:
            raise Error(f"--shape: input '{name}' is given twice")
        try:
            shapes[name] = [_count(extent) for extent in extents.split("x") if extents or not equals]  # a scalar has no extents
        except argparse.ArgumentTypeError:
            raise Error(f"--shape: '{text}' is not of the form NAME=AxB, for example grad=4096x2048") from None
    return shapes


def _check_run(options: argparse.Namespace) -> None:
    """Checks options as checkOptions of fp8moe-run does."""
    if options.random is None and options.inputs is None:
        raise Error("give the inputs with --inputs=FILE, with --random=SEED, or with both: what the file lacks is random")
    if options.random is None and (options.tokens is not None or options.shape):
        raise Error("--tokens and --shape belong to --random; with --inputs the file has the shapes")
    if "-" in (options.outputs, options.save_inputs):
        raise Error("'-' is no file; --outputs and --save-inputs write safetensors to one")
    if options.outputs and options.save_inputs and os.path.realpath(options.outputs) == os.path.realpath(options.save_inputs):
        raise Error(f"--outputs and --save-inputs are one file, '{options.outputs}'")
    if options.describe and options.outputs:
        raise Error("--describe does not run, so there are no --outputs")
    if options.device == "none" and not options.describe:
        raise Error("--device=none has no memory to run in; --describe prints the launches")
    if options.target and "," in options.target:
        raise Error(f"--target: '{options.target}' names several chips, but a program runs on one")
    if options.target and os.path.isdir(options.input):
        raise Error("--target: the artifact is compiled already; it belongs to IR")
    if options.repeat == 0:
        raise Error("--repeat: a program runs at least once")
    found = find_folders(options.input)
    if found != [options.input]:
        which = "one; pass" if len(found) == 1 else "one for each target; pass one of"
        raise Error(f"'{options.input}' is no artifact, but has {which} {', '.join(found)}")


def _compile_input(options: argparse.Namespace) -> Any:
    from .compiler import compile

    if options.device != "cpu" and not options.target:
        raise Error(f"IR for --device={options.device} needs --target=CHIP, such as sm_90a")
    module = _read_module(options.input)
    return compile(module, options.target or _default_target(module, "cpu"))


def _read_inputs(program: Program, options: argparse.Namespace) -> Dict[str, Any]:
    """The program's inputs in the file. All must be there, unless missing ones are random."""
    file = _safetensors.read(options.inputs)
    names = [buffer.name for buffer in program.inputs]
    has = f"the file has: {', '.join(file)}"
    for name in names:
        if name not in file and options.random is None:
            raise Error(
                f"{options.inputs}: no tensor '{name}', which the program reads; {has} (with --random=SEED, what it lacks is random)"
            )
    found = {name: file[name] for name in names if name in file}
    if names and not found:
        raise Error(f"{options.inputs}: no tensor that the program reads; {has}")
    return found


def _run(options: argparse.Namespace) -> None:
    _check_run(options)
    artifact = options.input if os.path.isdir(options.input) else _compile_input(options)
    device = "none" if options.describe else options.device
    program = load(artifact, device=device).program(options.program)
    arrays = _read_inputs(program, options) if options.inputs else {}
    if options.random is not None:
        arrays = _inputs.random_inputs(program, options.random, options.tokens, _shapes(options.shape), arrays)
    if options.save_inputs:
        _safetensors.write(options.save_inputs, arrays)
    inputs = _inputs.place(program, arrays)
    if options.describe:
        print(json.dumps(program.describe(**inputs), indent=1))
        return
    if options.outputs:
        _require_writable(options.outputs)  # fail before the run, not after it
    results = _time(program, inputs, options.repeat)
    if options.outputs:
        outputs = results if isinstance(results, tuple) else (results,)
        named = zip(program.outputs, outputs)
        _safetensors.write(
            options.outputs, {b.name: _inputs.to_numpy(value, b.dtype) for b, value in named}
        )


def _require_writable(path: str) -> None:
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _time(program: Program, inputs: Dict[str, Any], repeat: int) -> Any:
    best, results = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        results = program(**inputs)
        if program.device.kind == "gpu":
            import torch

            torch.cuda.synchronize(program.device.ordinal)
        best = min(best, time.perf_counter() - start)
    shortest = f" (the shortest of {repeat})" if repeat > 1 else ""
    print(f"{program.name}: {best * 1e3:.3f} ms{shortest}")
    return results


# --- prepare --------------------------------------------------------------------


def _add_prepare(parser: argparse.ArgumentParser) -> None:
    from . import programs

    parser.add_argument("program", choices=["grouped_mm", "bf16_grouped_mm", "kept_grouped_mm", "add_grad_weights", "linear", "kept_linear", "moe"],
                        help="programs to compile, as fp8moe.programs, fp8moe.linear_programs and fp8moe.moe_programs describe them")
    parser.add_argument("--sizes", action="append", required=True, metavar="K,N,E",
                        help="sizes of each expert's matrix, and the number of experts; K,N of a linear layer, D,H,E of moe (may be repeated)")
    parser.add_argument("--weights", default="NK", choices=programs.WEIGHTS,
                        help="how the weights [E, K, N] lie in memory")
    parser.add_argument("--recipe", default="auto", choices=["auto", *programs.RECIPES],
                        help="how operands are quantized (default: auto, which takes the programs of bf16_grouped_mm and of recipe rowwise)")
    parser.add_argument("--target", action="append", required=True, metavar="CHIP",
                        help="compile for this chip (may be repeated)")
    parser.add_argument("-o", dest="output", help="a folder for FP8MOE_ARTIFACTS of other machines; by default the cache")


def _prepare(options: argparse.Namespace) -> None:
    for text in options.sizes:
        for chip in split(options.target):
            put_all(_list_requests(options, _parse_sizes(options, text), chip), options.output)


def _parse_sizes(options: argparse.Namespace, text: str) -> Tuple[int, int, int]:
    is_linear = options.program in ("linear", "kept_linear")
    try:
        K, N, E = map(int, f"{text},1".split(",") if is_linear else text.split(","))
    except ValueError:
        raise Error(f"--sizes: '{text}' is not of the form {'K,N' if is_linear else 'K,N,E'}") from None
    return K, N, E


def _list_requests(options: argparse.Namespace, sizes: Tuple[int, int, int], chip: str) -> List[Request]:
    from . import linear_programs, moe_programs, programs

    recipe = "rowwise" if options.recipe == "auto" else options.recipe
    if options.program in ("linear", "kept_linear"):
        K, N, _ = sizes
        of_layer = linear_programs.linear_request(K, N, chip, recipe=recipe, kept=options.program == "kept_linear")
        return [linear_programs.linear_input_request(K, chip), of_layer]
    if options.program == "moe":
        if recipe != "rowwise":
            raise Error(f"--recipe: moe is FP8 throughout, expected auto or rowwise, found {recipe}")
        D, H, E = sizes
        # Calls that cannot use the programs of a whole layer use those of grouped_mm.
        matrices = [(K, N, E) for K, N in ((D, 2 * H), (H, D))]
        fallbacks = [programs.bf16_grouped_mm_request(*each, chip, weights=options.weights) for each in matrices if options.recipe == "auto"]
        fallbacks += [programs.grouped_mm_request(*each, chip, weights=options.weights) for each in matrices]
        return [*fallbacks, *(moe_programs.request(part, *sizes, chip, weights=options.weights) for part in moe_programs.PARTS)]
    bf16 = [programs.bf16_grouped_mm_request(*sizes, chip, weights=options.weights)]
    if options.program == "bf16_grouped_mm":
        return bf16
    words = {"weights": options.weights, "recipe": recipe}
    if options.program == "add_grad_weights":
        others = ["rowwise_bf16_grad_weights"] if options.recipe == "auto" else []
        return [programs.add_grad_weights_request(*sizes, chip, **{**words, "recipe": each}) for each in (recipe, *others)]
    request = programs.grouped_mm_request(*sizes, chip, kept=options.program == "kept_grouped_mm", **words)
    return [*bf16, request] if options.recipe == "auto" else [request]


# --- cache ----------------------------------------------------------------------


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists the artifacts of the compile caches ($FP8MOE_CACHE, by default ~/.cache/fp8moe), or those of them that "
        "--outdated and --older-than choose. --remove deletes those of the first cache, which is the one that is written."
    )
    parser.add_argument("--outdated", action="store_true",
                        help="entries that this installation never uses, as another compiler made them or they are damaged")
    parser.add_argument("--older-than", type=_count, metavar="DAYS", help="entries that were made before so many days")
    parser.add_argument("--remove", action="store_true", help="remove them")


def _cache(options: argparse.Namespace) -> None:
    from . import _cache_entries, cache

    roots = cache.folders()[: 1 if options.remove else None]
    found = {root: [entry for entry in _cache_entries.entries(root) if _is_chosen(entry, options)] for root in roots}
    total = 0
    for root, entries in found.items():
        print(f"{root}:")
        for entry in entries:
            if options.remove and not _cache_entries.remove(entry):
                continue
            _print_entry(entry)
            total += entry.bytes
    print(f"{total / 2**20:.1f} MiB {'removed' if options.remove else 'in all'}")


def _age(entry: Entry) -> float:
    """Age of an entry in days."""
    return (time.time() - entry.made) / 86400


def _is_chosen(entry: Entry, options: argparse.Namespace) -> bool:
    if options.outdated and not entry.damage and entry.is_current is None:
        raise Error(f"--outdated: no compiler for {entry.chip} is found here, so what any compiler made is used")
    if options.outdated and not entry.damage and entry.is_current:
        return False
    return options.older_than is None or _age(entry) >= options.older_than


def _print_entry(entry: Entry) -> None:
    what = f"{entry.what} on {entry.chip}" if entry.what else entry.path
    state = f", damaged: {entry.damage}" if entry.damage else ", another compiler" if entry.is_current is False else ""
    print(f"  {entry.bytes / 2**20:8.2f} MiB  {_age(entry):5.1f} days  {what}{state}")


# --- doctor ---------------------------------------------------------------------


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Says what this installation has and what is wrong with it. The exit status is 1 if there is something to do (lines with !!)."
    )
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE",
                        help="import this first, as what registers fp8moe with other packages (may be repeated)")
    parser.add_argument("--json", action="store_true", help="print data instead of text")


def _doctor(options: argparse.Namespace) -> int:
    from . import doctor

    for module in options.modules:
        importlib.import_module(module)
    found = doctor.examine()
    print(json.dumps([finding._asdict() for finding in found], indent=1) if options.json else doctor.format_findings(found))
    return int(any(finding.advice for finding in found))


# --- main -----------------------------------------------------------------------


def main(arguments: Optional[Sequence[str]] = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    is_of_model = any(argument.partition("=")[0] == "--model" for argument in given)  # selects other options of `prepare`
    prepare = (_prepare_model.add_options, _prepare_model.run) if is_of_model else (_add_prepare, _prepare)
    commands: Dict[str, Tuple[Callable[..., None], Callable[..., Optional[int]], str]] = {
        "compile": (_add_compile, _compile, "IR to artifacts"),
        "run": (_add_run, _run, "run a program of an artifact"),
        "opt": (_add_opt, _opt, "run passes on IR"),
        "report": (_add_report, _report, "what the compiler decides and why"),
        "advise": (_advise.add_arguments, _advise.run, "which matmuls of a model are worth FP8"),
        "prepare": (*prepare, "compile what fp8moe.torch needs: programs of given sizes, or with --model=config.json those of a model"
                              " (add --help to see its options)"),
        "cache": (_add_cache, _cache, "what the compile cache holds"),
        "doctor": (_add_doctor, _doctor, "what this installation has, and what is wrong with it"),
    }
    parser = argparse.ArgumentParser(prog="python -m fp8moe", description=__doc__)
    parser.add_argument("--version", action="version", version=f"fp8moe {__version__}", help="print the version")
    subparsers = parser.add_subparsers(dest="command", required=True)
    for name, (add, _, text) in commands.items():
        add(subparsers.add_parser(name, help=text, description=text, allow_abbrev=False))
    for stream in (sys.stdout, sys.stderr):  # paths may contain bytes that are not UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
    options, rest = parser.parse_known_args(given)
    options.rest = rest
    if rest and options.command != "opt":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    try:
        return commands[options.command][1](options) or 0
    except (Error, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        print(f"fp8moe {options.command}: error: {_describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"fp8moe {options.command}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"  # as the tools print it, without Python's [Errno 2]
    text = str(error)
    return text[len("error: ") :] if text.startswith("error: ") else text  # a diagnostic without a location


if __name__ == "__main__":
    # With Python's handler an interrupt would take effect after the compilation only. `run` and `report` keep that handler, as they
    # remove temporary folders. Background jobs of a script, where interrupts are ignored, keep ignoring them.
    if sys.argv[1:2] not in (["run"], ["report"]) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
