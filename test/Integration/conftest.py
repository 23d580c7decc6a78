# ===- conftest.py - Session fixtures of the numerics tests ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#

import os

import cases
import executors
import pytest

CPU_TARGETS = ["cpu", "cpu-fnuz"]


def pytest_report_header():
    return [
        f"seed of the generated cases: {cases.SEED} (FP8MOE_TEST_SEED overrides it)",
        f"executors: {', '.join(_all_executors())}",
    ]


def pytest_configure(config):
    config.addinivalue_line("markers", "large: needs more than 10 GiB of memory")


def _all_executors():
    cuda, _ = executors.cuda_target()
    rocm, _ = executors.rocm_targets()
    return CPU_TARGETS + ([f"cuda-{cuda}"] if cuda else []) + [f"rocm-{chip}" for chip in rocm]


@pytest.fixture(scope="session")
def compiler(tmp_path_factory):
    return executors.Compiler(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="session")
def get_executor(compiler, tmp_path_factory):
    """Returns a function from an executor's name to the executor. There is one per session."""
    made = {}

    def get(name):
        if name not in made:
            if name in CPU_TARGETS:
                made[name] = executors.CpuExecutor(compiler, name)
            elif name.startswith("cuda-"):
                made[name] = executors.CudaExecutor(compiler, name[len("cuda-") :])
            else:
                runner = os.environ["FP8MOE_HSACO_RUNNER"]
                folder = tmp_path_factory.mktemp(name)
                made[name] = executors.RunnerExecutor(compiler, name[len("rocm-") :], runner, folder)
        return made[name]

    return get


@pytest.fixture(params=CPU_TARGETS)
def cpu(request, get_executor):
    """Every CPU target, for operations that only CPUs have."""
    return get_executor(request.param)


@pytest.fixture(params=[name for name in _all_executors() if name.startswith("cuda-")])
def nvidia(request, get_executor):
    """The NVIDIA GPU, if there is one."""
    return get_executor(request.param)


@pytest.fixture(params=[name for name in _all_executors() if name.startswith("rocm-")])
def rocm(request, get_executor):
    """AMD code objects, if there is a runner."""
    return get_executor(request.param)


@pytest.fixture(params=[name for name in _all_executors() if name not in CPU_TARGETS])
def gpu(request, get_executor):
    """Every GPU, for behaviour of kernels only."""
    return get_executor(request.param)


@pytest.fixture(params=[name for name in _all_executors() if not name.startswith("rocm-")])
def cpu_or_nvidia(request, get_executor):
    """CPUs and the NVIDIA GPU, for operations that AMD targets lack."""
    return get_executor(request.param)


@pytest.fixture(params=[name for name in _all_executors() if name != "rocm-gfx942"])
def mx_device(request, get_executor):
    """Targets with MXFP8. gfx942 lacks it, because its FP8 has another encoding."""
    return get_executor(request.param)


@pytest.fixture(params=_all_executors())
def device(request, get_executor):
    """Every executor of this machine, for operations that all targets have."""
    return get_executor(request.param)
