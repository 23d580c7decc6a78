# Configuration of lit for the tests of fp8moe.
#
# Tools are found by name (`fp8moe-opt %s
# FileCheck %s`). `// REQUIRES: FEATURE` names a feature that some machines lack:
#
#   ptxas             ptxas of CUDA 13 was found (PATH, /usr/local/cuda, or .venv)
#   cuda              an NVIDIA GPU and its driver are there
#   fuzzers           the build has fuzz targets (the preset asan)
#   rocm-device-libs  the bitcode of ROCm's device libraries was found
#   rocm-runner       $FP8MOE_HSACO_RUNNER names a program that runs HSACO artifacts

import ctypes
import glob
import os
import shutil

import lit.formats

config.name = "fp8moe"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# Tests read files in Inputs. pytest runs Integration.
config.excludes = ["Inputs", "Integration", "lib"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.fp8moe_obj_root, "test")


def find_ptxas():
    """Returns the path of ptxas. The search is that of fp8moe-compile and scripts/setup.sh."""
    candidates = [os.environ.get("FP8MOE_PTXAS"), shutil.which("ptxas")]
    candidates.append("/usr/local/cuda/bin/ptxas")
    candidates += sorted(
        glob.glob(
            os.path.join(
                config.fp8moe_src_root,
                ".venv/lib/python3*/site-packages/nvidia/**/bin/ptxas",
            ),
            recursive=True,
        )
    )
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return path
    return None


def has_cuda_device():
    """Returns whether the CUDA driver has a device. Asking it directly, as the runtime does, needs
    no package.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return False
    return count.value > 0


def has_rocm_device_libs():
    """Returns whether ROCm's device libraries exist where lib/Artifact/DeviceLibraries.cpp looks
    for them.
    """
    roots = [os.environ.get("ROCM_PATH"), "/usr/lib/x86_64-linux-gnu", "/opt/rocm"]
    roots += glob.glob("/usr/lib/llvm-*/lib/clang/*")
    return any(
        root and os.path.isfile(os.path.join(root, "amdgcn", "bitcode", "ocml.bc"))
        for root in roots
    )


ptxas = find_ptxas()
path = [config.fp8moe_tools_dir, config.llvm_tools_dir]
if ptxas:
    config.available_features.add("ptxas")
    path.append(os.path.dirname(ptxas))
if config.sanitizer == "address":
    config.available_features.add("fuzzers")
if has_cuda_device():
    config.available_features.add("cuda")
if has_rocm_device_libs():
    config.available_features.add("rocm-device-libs")
if os.environ.get("FP8MOE_HSACO_RUNNER"):
    config.available_features.add("rocm-runner")

path.append(config.environment["PATH"])
config.environment["PATH"] = os.pathsep.join(path)
passed = ("ROCM_PATH", "FP8MOE_HSACO_RUNNER", "MALLOC_PERTURB_")
passed += ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")
for name in passed:
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["FP8MOE_RUNTIME_LIBRARY"] = os.path.join(
    config.fp8moe_lib_dir, "libfp8moe_runtime.so"
)

config.substitutions.append(("%python", config.python_executable))
config.substitutions.append(("%ptxas", ptxas or "ptxas"))
for tool in ("fp8moe-opt", "fp8moe-compile", "fp8moe-run", "fp8moe-lsp-server"):
    config.substitutions.append(
        ("%" + tool, os.path.join(config.fp8moe_tools_dir, tool))
    )
config.substitutions.append(("%fp8moe_lib_dir", config.fp8moe_lib_dir))
config.substitutions.append(("%examples", os.path.join(config.fp8moe_src_root, "examples")))
