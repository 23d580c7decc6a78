# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m fp8moe prepare --model config.json`: compiles the programs that the experts of a transformers model need on each rank.

It needs neither the model's weights nor a GPU.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Iterable, List, Optional

from . import cache, programs, recipes
from ._library import Error

_RECIPES = list(programs.RECIPES)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "python -m fp8moe prepare --model config.json [--ep N] [--tp N] [--target CHIP] [-o FOLDER]"
    parser.add_argument("--model", required=True, metavar="FILE", help="the config.json of a model of transformers, or its folder")
    parser.add_argument("--ep", type=_positive, default=1, metavar="N", help="ranks that share the experts of a layer")
    parser.add_argument("--tp", type=_positive, default=1, metavar="N", help="ranks that share the inner size of each expert")
    parser.add_argument("--recipe", metavar="RECIPE", help=f"how operands are quantized, by default as register does: {', '.join(_RECIPES)}")
    parser.add_argument("--kept", action="store_true", help="weights go through quantize_weights first")
    parser.add_argument("--main-grad", action="store_true", help="gradients of weights are added to buffers, too")
    parser.add_argument("--target", action="append", metavar="CHIP",
                        help="compile for this chip (may be repeated); by default for the GPU of this machine")
    parser.add_argument("-o", dest="output", help="a folder for FP8MOE_ARTIFACTS of other machines; by default the cache")


def _positive(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 on")


def run(options: argparse.Namespace) -> None:
    try:
        model = make_model(options.model, options.recipe)
    except ImportError as error:
        raise Error(f"{error} For sizes that you know, 'python -m fp8moe prepare grouped_mm --sizes=K,N,E' needs no torch.") from None
    divide_experts(model, options.ep, options.tp)
    from .torch._prepare import list_requests

    for chip in split(options.target or [_find_chip()]):
        put_all(list_requests(model, chip, kept=options.kept, main_grad=options.main_grad), options.output)


def split(texts: Iterable[str]) -> List[str]:
    """The values of an option that takes several, separated by commas, and may be repeated."""
    return [part for text in texts for part in text.split(",")]


def put_all(requests: Iterable[cache.Request], folder: Optional[str]) -> None:
    """Compiles artifacts into a folder, and prints where each is."""
    for request in requests:
        print(f"{request.what} on {request.chip}:", flush=True)
        print(f"  {cache.put(request, folder)}", flush=True)


def _find_chip() -> str:
    import torch

    from .torch._grouped_mm import chip_of

    try:
        return chip_of(torch.device("cuda", 0))
    except Error as error:
        raise Error(f"{error}; name the chip with --target, such as sm_90a") from None


def make_model(path: str, recipe: Optional[recipes.Recipe]) -> Any:
    """The model of a config.json on the device "meta", whose experts use `fp8moe.torch`."""
    from .torch import transformers  # reports a missing torch

    import torch

    name = "fp8moe_prepare"
    transformers.register(name, recipe=recipe or "auto")
    return build_model(path, experts_implementation=name, dtype=torch.bfloat16)


def build_model(path: str, **options: Any) -> Any:
    """The transformers model of a config.json, or of the folder that holds it, on the device "meta"."""
    if not os.path.exists(path):  # transformers would look for a model of that name on the network
        raise Error(f"there is no file or folder '{path}'; expected a config.json of transformers, or the folder that it is in")
    try:
        import torch
        import transformers as library
    except ImportError as error:
        raise Error(f"a configuration is read with torch and transformers, which cannot be imported here ({error}); pip install transformers") from None
    try:
        config = library.AutoConfig.from_pretrained(path, local_files_only=True)
    except (KeyError, OSError, ValueError) as error:
        raise Error(f"{path} is no configuration that transformers {library.__version__} knows: {error}") from None
    problems: List[str] = []
    for kind in (library.AutoModelForCausalLM, library.AutoModel):
        try:
            with torch.device("meta"):
                return kind.from_config(config, **options)
        except (TypeError, ValueError) as error:
            problems.append(str(error).splitlines()[0])
    raise Error(f"{path}: transformers makes no model of it: {'; '.join(problems)}")


def divide_experts(model: Any, ep: int, tp: int) -> None:
    """Shrinks the experts to the share of one rank: divides their number by `ep`, and their inner size by `tp`."""
    import torch

    for where, module in model.named_modules():
        if not hasattr(module, "is_transposed") or not hasattr(module, "has_gate"):
            continue
        names = ("gate_up_proj" if module.has_gate else "up_proj", "down_proj")
        for name in names:
            shape = list(getattr(module, name).shape)
            # Weights are [E, out, in] or [E, in, out]. The inner size is an output of the first matmul and an input of the second.
            inner = 1 if (name == "down_proj") == module.is_transposed else 2
            for option, dim, parts in (("--ep", 0, ep), ("--tp", inner, tp)):
                # The gate and up halves are divided separately.
                size = shape[dim] // 2 if name == "gate_up_proj" and dim else shape[dim]
                if size % parts:
                    what = "experts" if dim == 0 else "inner columns"
                    raise Error(f"{option}={parts}: {where}.{name} has {size} {what}, which {parts} does not divide")
                shape[dim] //= parts
            setattr(module, name, torch.nn.Parameter(torch.empty(shape, dtype=torch.bfloat16, device="meta")))
