# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m fp8moe advise config.json`: the plan of a transformers model, from its configuration alone."""

from __future__ import annotations

import argparse

from . import recipes
from ._prepare_model import build_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Predicts for each matmul of a model which uses are worth FP8. Reads a configuration of transformers, and needs torch and "
        "transformers, but no weights and no GPU."
    )
    parser.add_argument("config", help="a config.json of transformers, or the folder that it is in")
    parser.add_argument("--tokens", type=int, default=16384, help="on one rank, in one microbatch (default: 16384)")
    parser.add_argument("--microbatches", type=int, default=1, help="that share weights which are quantized once (default: 1)")
    parser.add_argument("--ep", type=int, default=1, help="ranks that experts are divided between (default: 1)")
    parser.add_argument("--tp", type=int, default=1, help="ranks that each matrix is divided between (default: 1)")
    parser.add_argument("--card", default="h200", choices=list(recipes.CARDS), help="the card whose times decide (default: h200)")
    parser.add_argument("--expert-rows", type=int, metavar="ROWS", help="rows of all experts of a layer, where the configuration does not say")
    parser.add_argument("--html", metavar="FILE", help="write the plan as a page")
    parser.add_argument("-o", dest="output", metavar="FILE", help="save the plan as JSON, for fp8moe.torch.Plan.load")


def run(options: argparse.Namespace) -> None:
    import fp8moe.torch

    model = build_model(options.config)
    words = {name: getattr(options, name) for name in ("tokens", "microbatches", "ep", "tp", "card", "expert_rows")}
    plan = fp8moe.torch.plan(model, **words)
    print(plan)
    if options.output:
        plan.save(options.output)
    if options.html:
        plan.html(options.html)
