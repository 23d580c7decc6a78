# ===- test_harness.py - The checks can fail -------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The harness finds programs that misbehave, and generated cases are as described."""

import collections

import cases
import executors
import harness
import ml_dtypes
import numpy as np
import oracle
import pytest
import safetensors_io

ROWS, PITCH = 3, 6


class FakeProgram:
    """Copies a [3, 4] bf16 tensor to rows of pitch 6, then calls `misbehave`."""

    def __init__(self, misbehave=lambda x, y: None):
        self.misbehave = misbehave

    def describe(self, x):
        shared = {"dtype": "BF16", "shape": [ROWS, 4], "align": 2}
        source = {"role": "input", "name": "x", "strides": [4, 1], "bytes": 24}
        target = {"role": "output", "name": "y", "strides": [PITCH, 1], "bytes": 32}
        return {"buffers": [shared | source, shared | target, {"role": "workspace"}]}

    def __call__(self, x, out):
        out["y"][...] = x
        self.misbehave(x, out["y"])


def run(misbehave):
    x = np.arange(12).reshape(3, 4).astype(oracle.BF16)
    return x, executors.run_guarded(FakeProgram(misbehave), {"x": x})


def poke(array, offset, value=1):
    """Writes one element at an offset from the first one."""
    np.ndarray((1,), array.dtype, array.base, _start(array) + offset * array.itemsize)[...] = value


def _start(array):
    return array.ctypes.data - array.base.ctypes.data


def test_a_correct_program_passes():
    x, outputs = run(lambda x, y: None)
    harness.compare(outputs, {"y": x})


def test_minimal_alignment():
    """No buffer has a higher alignment than promised."""
    seen = []
    run(lambda x, y: seen.extend([x.ctypes.data, y.ctypes.data]))
    assert [address % 4 for address in seen] == [2, 2]


@pytest.mark.parametrize("offset", [-1, 2 * PITCH + 4, 4], ids=["before", "after", "gap"])
def test_a_write_outside_is_found(offset):
    with pytest.raises(AssertionError, match=f"'y': byte {offset * 2} of a buffer of 32 bytes was written"):
        run(lambda x, y: poke(y, offset))


def test_a_write_to_an_input_is_found():
    with pytest.raises(AssertionError, match="input 'x' was written"):
        run(lambda x, y: poke(x, 0))


def test_an_element_left_out_is_found():
    """An element that is not written keeps the poison, which differs from every expected value."""

    def forget(x, y):
        y.view(np.uint16)[1, 2] = 0xA5A5

    x, outputs = run(forget)
    with pytest.raises(AssertionError, match=r"output 'y': 1 of 12 elements differ\n  \[1, 2\]: .*0xA5A5"):
        harness.compare(outputs, {"y": x})


def test_a_missing_output_is_found():
    with pytest.raises(AssertionError):
        harness.compare({}, {"y": np.zeros(1, np.float32)})


def test_safetensors_round_trip(tmp_path):
    tensors = {
        "a": np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16).T,
        "b": np.zeros((0, 4), np.float32),
        "c": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fnuz),
    }
    safetensors_io.write(tmp_path / "x", tensors, {"a.strides": "[1, 3]"})
    for name, array in safetensors_io.read(tmp_path / "x").items():
        oracle.assert_equal(array, tensors[name], name, exact_nan=True)


@pytest.mark.parametrize("pattern", [p for p in cases.GROUP_PATTERNS if p != "invalid"])
@pytest.mark.parametrize("groups", cases.GROUP_COUNTS)
@pytest.mark.parametrize("tokens", cases.TOKENS)
def test_offsets_are_what_the_pattern_says(pattern, groups, tokens):
    ends = cases.offsets(cases.rng_for(pattern, groups, tokens), pattern, groups, tokens)
    lengths = np.diff(np.concatenate([[0], ends]))
    assert ends.dtype == np.int32 and len(ends) == groups
    assert (lengths >= 0).all() and 0 <= ends[0] and ends[-1] <= tokens
    if pattern == "empty_first":
        assert lengths[0] == 0
    elif pattern == "empty_last":
        assert lengths[-1] == 0
    elif pattern == "empty_middle" and groups > 1:
        assert lengths[groups // 2] == 0
    elif pattern == "all_empty":
        assert not lengths.any()
    elif pattern == "one_has_all":
        assert lengths.max() == tokens
    elif pattern == "trailing":
        assert ends[-1] < tokens or tokens == 0


def test_every_size_and_pattern_comes_up():
    seen = collections.defaultdict(set)
    for case in cases.jagged_cases("coverage", 12):
        for field in ("groups", "pattern", "width", "special"):
            seen[field].add(getattr(case, field))
    assert seen["groups"] == set(cases.GROUP_COUNTS)
    assert seen["pattern"] == set(cases.GROUP_PATTERNS)
    assert seen["width"] == set(cases.WIDTHS)
    assert seen["special"] == {False, True}


def test_values_hold_ties_subnormals_nan_and_infinities():
    x = cases.values(cases.rng_for("values"), (129, 2880), oracle.F32, "e4m3fn", 0, special=True)
    a = np.abs(x)
    assert np.isnan(x).any() and np.isinf(x).any() and (x == 0).any()
    assert ((a > 0) & (a < np.finfo(np.float32).tiny)).any()
    q, s = oracle.dynamic_quantize(x, [0], "e4m3fn", True)
    with np.errstate(all="ignore"):
        product = x * s
    ties = oracle.bits(product) & 0x000FFFFF == 0x00080000
    assert ties[np.isfinite(product) & (np.abs(product) >= 2.0**-6)].any()


def test_cases_depend_on_the_seed_and_the_name_only():
    a, b = (cases.rng_for("same", 1).integers(0, 1 << 60) for _ in range(2))
    assert a == b != cases.rng_for("same", 2).integers(0, 1 << 60)
