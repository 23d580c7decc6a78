# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""transformers' own tests of models with experts, run with `experts_implementation="fp8moe"` unless
a test asks for other experts.

The tests are those of its repository, which its package lacks. FP8MOE_TRANSFORMERS_TESTS names the
repository's folder `tests`, of the installed version. FP8MOE_TRANSFORMERS_EXPERTS=grouped_mm runs
the tests with transformers' own experts, for comparison.

Most of these tests compute in float32, but fp8moe needs bf16 or autocast. Autocast is therefore on,
for the experts only.
"""

import functools
import importlib
import os
import sys
import types
from unittest.mock import Mock

import pytest

REASON = "is not installed; scripts/test.sh torch installs it and runs these"
torch = pytest.importorskip("torch", reason=f"torch {REASON}")
transformers = pytest.importorskip("transformers", reason=f"transformers {REASON}")
if "FP8MOE_TRANSFORMERS_TESTS" not in os.environ:
    pytest.skip("FP8MOE_TRANSFORMERS_TESTS does not name the tests of transformers' repository", allow_module_level=True)
pytest.importorskip("parameterized", reason="transformers' tests need parameterized")

from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS as functions  # noqa: E402

import fp8moe.torch  # noqa: E402

IMPLEMENTATION = os.environ.get("FP8MOE_TRANSFORMERS_EXPERTS", "fp8moe")
MODELS = {"Qwen3Moe": "qwen3_moe", "Mixtral": "mixtral", "Qwen2Moe": "qwen2_moe", "GptOss": "gpt_oss"}
#: Sizes that GPUs need to be multiples of 16; transformers' tests have 12 and 37.
SIZES = {"moe_intermediate_size": 16, "intermediate_size": 48}
#: Tolerance of a model's outputs, relative to their norm.
TOLERANCE = 0.1
#: Skipped tests run other processes with transformers' experts, or export to other runtimes.
LEFT_OUT = ("FSDPTesterMixin", "TensorParallelTesterMixin", "ExportTesterMixin", "ExportGenerateTesterMixin")


def import_tests():
    sys.path.insert(0, os.path.dirname(os.path.abspath(os.environ["FP8MOE_TRANSFORMERS_TESTS"])))
    pipelines = types.ModuleType("tests.test_pipeline_mixin")  # its tests load models from the network
    pipelines.PipelineTesterMixin = type("PipelineTesterMixin", (), {})
    sys.modules[pipelines.__name__] = pipelines
    found = {}
    for name, folder in MODELS.items():
        module = importlib.import_module(f"tests.models.{folder}.test_modeling_{folder}")
        found[name] = getattr(module, f"{name}ModelTest")
    return found


def in_bf16(function):
    """Wraps experts to run in bf16: under autocast, unless the model is in bf16."""

    @functools.wraps(function)
    def forward(self, hidden_states, *arguments):
        enabled = hidden_states.dtype != torch.bfloat16
        with torch.autocast(hidden_states.device.type, torch.bfloat16, enabled=enabled):
            return function(self, hidden_states, *arguments)

    return forward


def compare_with_eager(self):
    """Compares with eager. transformers' comparison of its own implementations has a tolerance of
    1e-4.
    """
    ours = Mock(wraps=functions["fp8moe"])
    functions.register("fp8moe", ours)
    self.model_tester.num_hidden_layers = 1  # a second layer might route tokens differently
    for model_class in self.all_model_classes:
        torch.manual_seed(0)
        config, inputs = self.model_tester.prepare_config_and_inputs_for_common()
        model = model_class(config).eval().to(transformers.testing_utils.torch_device)
        for name, parameter in model.named_parameters():
            if ".experts." in name:  # otherwise experts hardly affect the outputs
                torch.nn.init.normal_(parameter, std=0.1)
        outputs = {}
        for implementation in ("eager", "fp8moe"):
            model.set_experts_implementation(implementation)
            ours.reset_mock()
            with torch.no_grad():
                outputs[implementation] = model(**self._prepare_for_class(inputs, model_class))[0].double()
            assert ours.called == (implementation == "fp8moe")
        error = (outputs["fp8moe"] - outputs["eager"]).norm() / outputs["eager"].norm()
        assert 0 < error <= TOLERANCE


def adapt(name, cls):
    left_out = [base for base in cls.__mro__ if base.__name__ in LEFT_OUT]

    class Tester(cls.model_tester_class):
        def __init__(self, parent, **keywords):
            super().__init__(parent, **{**SIZES, **keywords})

    ours = {test: None for base in left_out for test in vars(base) if test.startswith("test_")}
    if IMPLEMENTATION == "fp8moe":
        ours["test_our_experts_and_eager"] = compare_with_eager
    return type(f"Test{name}", (cls,), {"model_tester_class": Tester, "__module__": __name__, **ours})


for _name, _class in import_tests().items():
    globals()[f"Test{_name}"] = adapt(_name, _class)
del _class


@pytest.fixture(autouse=True)
def our_experts(request, monkeypatch):
    if IMPLEMENTATION == "fp8moe" and not os.environ.get("FP8MOE_TEST_ARTIFACTS"):
        request.getfixturevalue("ir")
    fp8moe.torch.transformers.register()
    functions.register("fp8moe", in_bf16(functions["fp8moe"]))
    chosen = transformers.PreTrainedModel.get_correct_experts_implementation
    monkeypatch.setattr(
        transformers.PreTrainedModel,
        "get_correct_experts_implementation",
        lambda self, requested: chosen(self, IMPLEMENTATION if requested is None else requested),
    )
