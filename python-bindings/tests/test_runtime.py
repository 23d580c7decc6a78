# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python runtime with a handmade artifact, whose kernels are C. The tests need the built
library, a C compiler and ml_dtypes, but not fp8moe's compiler.
"""

import copy
import json
import pickle
import shutil
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import fp8moe
from fp8moe import _program, _tensors, runtime

KERNELS = r"""
#include <stdint.h>
#define ARG(type, i) (*(type *)params[i])
/* (bf16 *in, u8 *out, u8 *workspace, i64 m, i64 n): the high bytes of `in`,
   which has row pitch n, column-major, by way of the workspace. */
__attribute__((visibility("default"))) void transpose_high(void **params) {
  const uint8_t *in = ARG(const uint8_t *, 0);
  uint8_t *out = ARG(uint8_t *, 1), *workspace = ARG(uint8_t *, 2);
  int64_t m = ARG(int64_t, 3), n = ARG(int64_t, 4);
  for (int64_t i = 0; i < m * n; ++i)
    workspace[i] = in[2 * i + 1];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      out[i + j * m] = workspace[i * n + j];
}
/* (i32 *in, f32 *out, i64 n): conversion. */
__attribute__((visibility("default"))) void to_float(void **params) {
  for (int64_t i = 0; i < ARG(int64_t, 2); ++i)
    ARG(float *, 1)[i] = ARG(const int32_t *, 0)[i];
}
"""

M, N = {"value": 0}, 4
PROGRAMS = [
    {
        "name": "quantize",
        "buffers": [
            {"role": "input", "name": "x", "dtype": "BF16",
             "shape": [{"dim": [0, 0]}, N], "strides": [N, 1], "align": 2},
            {"role": "input", "name": "n", "dtype": "I32",
             "shape": [3], "strides": [1], "align": 4},
            {"role": "output", "name": "q", "dtype": "F8_E4M3",
             "shape": [M, N], "strides": [1, M], "align": 16},
            {"role": "output", "name": "s", "dtype": "F32",
             "shape": [3], "strides": [1], "align": 4},
            {"role": "workspace", "dtype": "U8",
             "shape": [M, N], "strides": [N, 1], "align": 64},
        ],
        "values": [{"op": "dim", "args": [0, 0]}],
        "launches": [
            {"kernel": "transpose_high", "grid": [1, 1, 1], "block": [1, 1, 1],
             "shared": 0,
             "args": [{"buffer": 0}, {"buffer": 2}, {"buffer": 4}, M, N]},
            {"kernel": "to_float", "grid": [1, 1, 1], "block": [1, 1, 1],
             "shared": 0, "args": [{"buffer": 1}, {"buffer": 3}, 3]},
        ],
    },
    {
        "name": "convert",
        "buffers": [
            {"role": "input", "name": "in", "dtype": "I32",
             "shape": [{"dim": [0, 0]}], "strides": [1], "align": 4},
            {"role": "output", "name": "out", "dtype": "F32",
             "shape": [M], "strides": [1], "align": 4},
        ],
        "values": [{"op": "dim", "args": [0, 0]}],
        "launches": [
            {"kernel": "to_float", "grid": [1, 1, 1], "block": [1, 1, 1],
             "shared": 0, "args": [{"buffer": 0}, {"buffer": 1}, M]},
        ],
    },
]  # fmt: skip


def checksum(path):
    """Returns the XXH3-64 of a file, computed by the library's C header."""
    source = path.parent / "hash.c"
    source.write_text(
        "#define XXH_INLINE_ALL\n#include <xxhash.h>\n#include <stdio.h>\n"
        "static char bytes[1 << 20];\nint main(void) {\n"
        "  size_t n = fread(bytes, 1, sizeof bytes, stdin);\n"
        '  printf("%016llx", (unsigned long long)XXH3_64bits(bytes, n));\n}\n'
    )
    program = path.parent / "hash"
    subprocess.run([compiler(), "-o", program, source], check=True)
    with open(path, "rb") as stdin:
        return subprocess.check_output([program], stdin=stdin, text=True)


def compiler():
    found = shutil.which("cc") or shutil.which("clang-22")
    if not found:
        pytest.skip("no C compiler")
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("artifact")
    (path / "kernels.c").write_text(KERNELS)
    library = path / "kernels.so"
    subprocess.run(
        [compiler(), "-shared", "-fPIC", "-o", library, path / "kernels.c"], check=True
    )
    manifest = {
        "schema": 1,
        "min_runtime": "0.1.0",
        "producer": "test",
        "target": {"chip": "cpu", "kind": "cpu", "fp8": "fn"},
        "binaries": [
            {"file": "kernels.so", "format": "so", "xxh3": checksum(library)}
        ],
        "programs": PROGRAMS,
        "decisions": [],
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture(scope="session")
def artifact(folder):
    return fp8moe.load(folder)


@pytest.fixture
def quantize(artifact):
    return artifact.program("quantize")


@pytest.fixture
def convert(artifact):
    return artifact.program("convert")


def inputs(m):
    x = np.arange(m * N, dtype=np.uint16).reshape(m, N) * 257
    return x.view(ml_dtypes.bfloat16), np.array([1, -2, 3], np.int32)


def check(x, n, q, s):
    assert q.shape == x.shape and q.dtype == ml_dtypes.float8_e4m3fn
    assert np.array_equal(q.view(np.uint8), x.view(np.uint16) >> 8)
    assert s.dtype == np.float32 and np.array_equal(s, n)


def test_artifact(artifact, quantize):
    assert artifact.programs == ("quantize", "convert")
    assert (artifact.chip, artifact.binary) == ("cpu", "kernels.so")
    assert "quantize(x: BF16[?x4], n: I32[3])" in repr(quantize)
    assert quantize.inputs[0].shape == (None, 4)
    assert quantize.outputs[0].strides == (1, None)


@pytest.mark.parametrize("m", [1, 2, 5, 100])
def test_outputs_have_the_programs_layout(quantize, m):
    x, n = inputs(m)
    result = quantize(x, n=n)
    check(x, n, result.q, result.s)
    if m > 1:
        assert result.q.strides == (1, m)
    assert result.q.ctypes.data % 16 == 0


def test_empty(quantize):
    x, n = inputs(0)
    q, s = quantize(x=x, n=n)
    assert q.shape == (0, 4)
    assert np.array_equal(s, n)


def test_single_output_is_no_tuple(convert):
    assert np.array_equal(convert(np.arange(5, dtype=np.int32)), np.arange(5.0))


def test_keywords_may_be_any_name(convert):
    assert convert(**{"in": np.ones(2, np.int32)}).shape == (2,)


def test_out(quantize, convert):
    x, n = inputs(3)
    s = np.empty(3, np.float32)
    q = np.empty((4, 3), ml_dtypes.float8_e4m3fn).T
    result = quantize(x, n, out={"s": s})
    assert result.s is s
    check(x, n, *result)
    if q.ctypes.data % 16 == 0:
        check(x, n, *quantize(x, n, out=[q, s]))
    out = np.empty(2, np.float32)
    assert convert(np.ones(2, np.int32), out=out) is out


@pytest.mark.parametrize(
    "out, message",
    [
        (np.empty(3, np.float32), "has shape (3,), expected (2,)"),
        (np.empty(2, np.int32), "has dtype I32, expected F32"),
        (np.empty(4, np.float32)[::2], "has strides (2,), expected (1,)"),
        (np.broadcast_to(np.float32(0), (2,)), "is read-only"),
    ],
)
def test_wrong_out(convert, out, message):
    with pytest.raises(fp8moe.Error, match=r"output 'out': ") as info:
        convert(np.ones(2, np.int32), out=out)
    assert message in str(info.value)


def test_wrong_names(quantize):
    x, n = inputs(1)
    with pytest.raises(TypeError, match="input 'n' is missing"):
        quantize(x)
    with pytest.raises(TypeError, match="there is no input 'y'"):
        quantize(x, n, y=1)
    with pytest.raises(TypeError, match="input 'x' is given twice"):
        quantize(x, n, x=x)
    with pytest.raises(TypeError, match="3 inputs are given"):
        quantize(x, n, n)
    with pytest.raises(TypeError, match="there is no output 'z'"):
        quantize(x, n, out={"z": x})
    with pytest.raises(TypeError, match="`out` has 1 tensors, expected 2"):
        quantize(x, n, out=x)


@pytest.mark.parametrize(
    "x, message",
    [
        (np.zeros((2, 4), np.float32), "input 'x': has dtype F32, expected BF16"),
        (np.zeros((2, 5), ml_dtypes.bfloat16), "input 'x': dim 1 is 5, expected 4"),
        (np.zeros(4, ml_dtypes.bfloat16), "input 'x': rank is 1, expected 2"),
        (np.zeros((4, 2), ml_dtypes.bfloat16).T, "input 'x': stride 0 is 1 elements"),
        (np.zeros((2, 4), ">i4"), "not in native byte order"),
        (np.zeros((2, 4), np.complex64), "dtype complex64 is not supported"),
    ],
)
def test_wrong_inputs(quantize, x, message):
    with pytest.raises(runtime.InvalidArgumentError) as info:
        quantize(x, np.zeros(3, np.int32))
    assert message in str(info.value)
    with pytest.raises(ValueError):
        quantize(x, np.zeros(3, np.int32))


def test_not_a_tensor(convert):
    with pytest.raises(TypeError, match="input 'in': expected a NumPy array"):
        convert([1, 2, 3])


def test_overlap_is_refused(convert):
    memory = np.zeros(8, np.int32)
    with pytest.raises(runtime.InvalidArgumentError, match="overlaps input 'in'"):
        convert(memory[:4], out=memory[2:6].view(np.float32))


def test_stream_on_the_cpu(convert):
    with pytest.raises(runtime.InvalidArgumentError, match="stream must be null"):
        convert(np.ones(2, np.int32), stream=1)


def test_describe(quantize):
    description = quantize.describe(x=(7, 4), n=runtime.TensorSpec((3,), (1,), "I32"))
    assert description["workspace"] == {"bytes": 28, "align": 64}
    assert description["buffers"][2]["strides"] == [1, 7]
    args = description["launches"][0]["args"]
    assert args == [{"buffer": 0}, {"buffer": 2}, {"buffer": 4}, 7, 4]
    with pytest.raises(runtime.InvalidArgumentError, match="has dtype U8"):
        quantize.describe((7, 4), runtime.TensorSpec((3,), dtype="U8"))


def test_device_none(folder):
    program = fp8moe.load(folder, device="none").program("convert")
    assert program.describe((5,))["buffers"][1]["bytes"] == 20
    with pytest.raises(fp8moe.Error, match="device 'none'"):
        program(np.ones(2, np.int32))


def test_loading_fails(folder, tmp_path):
    with pytest.raises(runtime.NotFoundError, match="manifest.json: No such file"):
        fp8moe.load(tmp_path)
    with pytest.raises(runtime.UnsupportedError, match="compiled for cpu"):
        fp8moe.load(folder, device="cuda:0")
    with pytest.raises(runtime.NotFoundError, match="cannot load the fp8moe runtime"):
        fp8moe.load(folder, library=tmp_path / "absent.so")
    artifact = fp8moe.load(folder)
    with pytest.raises(runtime.NotFoundError, match="there is no program 'x'"):
        artifact.program("x")
    with pytest.raises(runtime.NotFoundError, match="which program"):
        artifact.program()
    with pytest.raises(runtime.NotFoundError, match="manifest.json is a file, expected the folder of an artifact"):
        fp8moe.load(folder / "manifest.json")
    for load, found in (
        (lambda: fp8moe.load(None), "the path: expected the folder of an artifact, or what fp8moe.compile returned, found None"),
        (lambda: fp8moe.load(folder, None), "the device: expected text, found None"),
        (lambda: artifact.program(3), "the name of the program: expected text, found 3"),
    ):
        with pytest.raises(TypeError, match=found):
            load()


def test_program_outlives_the_artifact(folder):
    program = fp8moe.load(folder).program("convert")
    assert convert_sum(program, 10) == 45


def convert_sum(program, n):
    return program(np.arange(n, dtype=np.int32)).sum()


def test_threads(quantize):
    """Eight threads use more shapes than a program caches."""
    problems = []

    def work(seed):
        try:
            for m in np.random.default_rng(seed).integers(0, 400, 150):
                x, n = inputs(int(m))
                check(x, n, *quantize(x, n))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(quantize._calls) <= _program._MAX_CALLS


class DLPackOnly:
    """A tensor of a library that is neither NumPy nor torch."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)


def test_dlpack(convert):
    array = np.arange(12, dtype=np.int32)[4:]
    out = np.empty(8, np.float32)
    convert(DLPackOnly(array), out=DLPackOnly(out))
    assert np.array_equal(out, array)
    view = _tensors.view(DLPackOnly(np.zeros((2, 3))[:, 1:]), "x")
    assert (view.shape, view.strides, view.dtype) == ((2, 2), (3, 1), "F64")


class CudaArray:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"version": 3, **interface}


def test_cuda_array_interface(convert):
    array = CudaArray(
        data=(0x1000, True), shape=(2, 3), typestr="<f4", strides=(16, 4)
    )
    view = _tensors.view(array, "x")
    assert view[:5] == (0x1000, (2, 3), (4, 1), "F32", "gpu")
    assert view.readonly
    opaque = CudaArray(data=(0x1000, False), shape=(2,), typestr="|V2")
    assert _tensors.view(opaque, "x").dtype is None
    with pytest.raises(runtime.InvalidArgumentError, match="in the memory of the gpu"):
        convert(array)


@pytest.mark.parametrize("typestr", ["<c8", ">f4", "<f16", "<M8", "<i3", "|O8"])
def test_cuda_arrays_of_unknown_types(typestr):
    array = CudaArray(data=(0x1000, False), shape=(2,), typestr=typestr)
    with pytest.raises(runtime.InvalidArgumentError, match="x: elements of .* are not supported"):
        _tensors.view(array, "x")


def test_opaque_elements_must_have_the_size(folder):
    class Gpu(_program.Program):
        """Accepts tensors as on a GPU, but runs nothing."""

        def __init__(self, artifact):
            super().__init__(artifact, artifact._library, "none", artifact._library.artifact_find_program(artifact._handle, b"convert"))
            self.device = _program.Device.of("cuda:0")

    program = Gpu(fp8moe.load(folder, device="none"))
    opaque = CudaArray(data=(0x1000, False), shape=(2,), typestr="|V2")
    with pytest.raises(runtime.InvalidArgumentError, match="has elements of 2 bytes, expected I32"):
        program(opaque)


def test_masks_are_refused(convert):
    with pytest.raises(runtime.InvalidArgumentError, match="masked array"):
        convert(np.ma.array([1, 2], mask=[0, 1], dtype=np.int32))
    masked = CudaArray(data=(0x1000, False), shape=(2,), typestr="<i4", mask=object())
    with pytest.raises(runtime.InvalidArgumentError, match="masked array"):
        _tensors.view(masked, "x")


def test_dlpack_says_what_is_read_only(convert):
    class Versioned(DLPackOnly):
        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    out = np.empty(2, np.float32)
    out.flags.writeable = False
    with pytest.raises(fp8moe.Error, match="output 'out': is read-only"):
        convert(np.ones(2, np.int32), out=Versioned(out))
    frozen = np.ones(2, np.int32)
    frozen.flags.writeable = False
    assert np.array_equal(convert(Versioned(frozen)), [1, 1])


def test_dlpack_without_a_tensor(convert):
    class Consumed:
        def __dlpack__(self, max_version=None):
            return object()

    with pytest.raises(runtime.InvalidArgumentError, match="returned no tensor"):
        convert(Consumed())


@pytest.mark.parametrize("stream", ["0", 1.5, -1, 2**64, object()])
def test_not_a_stream(convert, stream):
    with pytest.raises(TypeError, match="stream: expected a stream of torch or CuPy"):
        convert(np.ones(2, np.int32), stream=stream)


def test_null_streams(convert):
    class Stream:
        ptr = 0

    assert np.array_equal(convert(np.ones(2, np.int32), stream=Stream()), [1, 1])
    assert np.array_equal(convert(np.ones(2, np.int32), stream=0), [1, 1])


def test_outputs_that_are_none_are_allocated(quantize):
    x, n = inputs(3)
    s = np.empty(3, np.float32)
    result = quantize(x, n, out={"q": None, "s": s})
    assert result.s is s
    check(x, n, *result)


@pytest.mark.parametrize(
    "spec, error, message",
    [
        (runtime.TensorSpec((2**64 + 5,)), runtime.InvalidArgumentError, "does not fit 64 bits"),
        (runtime.TensorSpec((2.5,)), TypeError, "entries that are no integers"),
        (runtime.TensorSpec((-1,)), runtime.InvalidArgumentError, "-1"),
        (runtime.TensorSpec((5,), (1, 1)), runtime.InvalidArgumentError, "differ in length"),
        (runtime.TensorSpec((5,), dtype="int32"), runtime.InvalidArgumentError, "unknown dtype 'int32'"),
        ("5", TypeError, "expected a NumPy array"),
    ],
)
def test_describing_what_cannot_be(convert, spec, error, message):
    with pytest.raises(error, match=message):
        convert.describe(spec)


def test_null_characters(folder, artifact):
    for load in (
        lambda: artifact.program("convert\0x"),
        lambda: fp8moe.load(str(folder) + "\0x"),
        lambda: fp8moe.load(folder, device="cpu\0x"),
    ):
        with pytest.raises(runtime.InvalidArgumentError, match="contains a null character"):
            load()


def test_copies_and_pickles(folder, quantize, monkeypatch, tmp_path):
    """A copied or unpickled program is loaded again, from any working directory."""
    monkeypatch.chdir(folder.parent)
    program = fp8moe.load(folder.name).program("quantize")
    pickled = pickle.dumps(program)
    monkeypatch.chdir(tmp_path)
    x, n = inputs(5)
    for again in (pickle.loads(pickled), copy.copy(quantize), copy.deepcopy(quantize)):
        assert again.name == "quantize"
        result = pickle.loads(pickle.dumps(again(x, n)))
        assert result._fields == ("q", "s")
        check(x, n, result.q, result.s)


def test_inputs_may_be_called_self(folder, tmp_path):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["programs"][1]["buffers"][0]["name"] = "self"
    manifest["programs"][1]["buffers"][1]["name"] = "gewünscht"
    shutil.copytree(folder, tmp_path / "a")
    (tmp_path / "a" / "manifest.json").write_text(json.dumps(manifest))
    program = fp8moe.load(tmp_path / "a").program("convert")
    assert program.outputs[0].name == "gewünscht"
    assert np.array_equal(program(self=np.ones(2, np.int32)), [1, 1])
    assert program.describe(self=(3,))["program"] == "convert"


def test_unloading_at_exit(folder):
    """An interpreter that ends while threads run programs prints nothing."""
    script = (
        "import threading, numpy as np, fp8moe\n"
        f"program = fp8moe.load({str(folder)!r}).program('convert')\n"
        "def work():\n"
        "    while True: program(np.arange(1000, dtype=np.int32))\n"
        "for _ in range(2): threading.Thread(target=work, daemon=True).start()\n"
        "program(np.ones(2, np.int32))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_torch(convert):
    torch = pytest.importorskip("torch")
    result = convert(torch.arange(5, dtype=torch.int32))
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, torch.arange(5.0))


def test_torch_tensors_that_are_no_plain_memory(convert):
    torch = pytest.importorskip("torch")
    base = torch.arange(4, dtype=torch.int32)
    convert(base)  # caches a call with tensors like these
    for tensor, message in (
        (base.to_sparse(), "layout torch.sparse_coo"),
        (base.to("meta"), "is on device meta"),
        (torch._neg_view(base), "negated lazily"),
    ):
        with pytest.raises(runtime.InvalidArgumentError, match=message):
            convert(tensor)
