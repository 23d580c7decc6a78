# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loading refuses damaged artifacts and leaks nothing."""

import json
import os
import resource
import shutil
import threading

import numpy as np
import pytest

import fp8moe
from test_runtime import folder  # noqa: F401  # an artifact made by hand


def edit(change):
    """Returns a function that damages manifest.json as data."""

    def damage(path):
        manifest = json.loads((path / "manifest.json").read_text())
        change(manifest)
        (path / "manifest.json").write_text(json.dumps(manifest))

    return damage


def rewrite(change):
    """Returns a function that damages manifest.json as bytes."""

    def damage(path):
        file = path / "manifest.json"
        file.write_bytes(change(file.read_bytes()))

    return damage


def flip_a_bit(path):
    data = bytearray((path / "kernels.so").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "kernels.so").write_bytes(bytes(data))


def truncate(path):
    data = (path / "kernels.so").read_bytes()
    (path / "kernels.so").write_bytes(data[:-1])


def program(manifest):
    return manifest["programs"][0]


#: Each damage, with the message that it must cause.
DAMAGES = {
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "manifest.json: No such file"),
    "no binary": (lambda path: (path / "kernels.so").unlink(), "kernels.so: No such file"),
    "a bit of the binary": (flip_a_bit, "checksum"),
    "end of the binary": (truncate, "checksum"),
    "empty manifest": (rewrite(lambda data: b""), "manifest.json"),
    "half a manifest": (rewrite(lambda data: data[: len(data) // 2]), "manifest.json"),
    "no JSON": (rewrite(lambda data: b"\x00\xff" + data), "manifest.json"),
    "deep nesting": (rewrite(lambda data: b"[" * 100_000), "manifest.json"),
    "a key twice": (rewrite(lambda data: data.replace(b'"schema": 1', b'"schema": 1, "schema": 1')), "schema"),
    "another schema": (edit(lambda m: m.update(schema=99)), "schema"),
    "a newer runtime": (edit(lambda m: m.update(min_runtime="99.0.0")), "99.0.0"),
    "no version": (edit(lambda m: m.update(min_runtime="new")), "min_runtime"),
    "a missing key": (edit(lambda m: m.pop("programs")), "programs"),
    "an unknown key": (edit(lambda m: m.update(extra=1)), "extra"),
    "an unknown kind": (edit(lambda m: m["target"].update(kind="tpu")), "tpu"),
    "no binaries": (edit(lambda m: m.update(binaries=[])), "binaries"),
    "a path as file": (edit(lambda m: m["binaries"][0].update(file="../kernels.so")), "../kernels.so"),
    "a wrong checksum": (edit(lambda m: m["binaries"][0].update(xxh3="0" * 16)), "checksum"),
    "no checksum": (edit(lambda m: m["binaries"][0].update(xxh3="xyz")), "xxh3"),
    "an unknown dtype": (edit(lambda m: program(m)["buffers"][0].update(dtype="F4")), "F4"),
    "a buffer that is not there": (
        edit(lambda m: program(m)["launches"][0]["args"].append({"buffer": 99})), "99"),
    "a later value": (edit(lambda m: program(m)["values"][0].update(op="add", args=[{"value": 7}, 1])), "value"),
    "too many strides": (edit(lambda m: program(m)["buffers"][0]["strides"].append(1)), "strides"),
    "a negative extent": (edit(lambda m: program(m)["buffers"][0].update(shape=[-1, 4])), "-1"),
    "an alignment of 3": (edit(lambda m: program(m)["buffers"][0].update(align=3)), "align"),
    "one name twice": (edit(lambda m: program(m)["buffers"][1].update(name="x")), "x"),
    "a block of nothing": (edit(lambda m: program(m)["launches"][0].update(block=[0, 1, 1])), "block"),
    "a kernel that is not there": (edit(lambda m: program(m)["launches"][0].update(kernel="absent")), "absent"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_artifact_is_refused(folder, tmp_path, what):  # noqa: F811
    path = tmp_path / "artifact"
    shutil.copytree(folder, path)
    fp8moe.load(path)
    damage, message = DAMAGES[what]
    damage(path)
    with pytest.raises(fp8moe.Error) as info:
        fp8moe.load(path)
    assert message in str(info.value)


def test_random_damage_never_crashes(folder, tmp_path):  # noqa: F811
    """A manifest with flipped, deleted or repeated bytes is refused, or is still usable."""
    path = tmp_path / "artifact"
    shutil.copytree(folder, path)
    data = (path / "manifest.json").read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(500):
        start, size = (int(n) for n in rng.integers(0, (len(data) - 64, 64)))
        kind = rng.integers(3)
        middle = [b"", data[start : start + size] * 2, bytes(rng.integers(0, 256, size, np.uint8))][kind]
        (path / "manifest.json").write_bytes(data[:start] + middle + data[start + size :])
        try:
            fp8moe.load(path, device="none")
        except fp8moe.Error:
            refused += 1
    assert refused > 300


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_loading_ten_thousand_times_leaks_nothing(folder):  # noqa: F811
    x = np.arange(8, dtype=np.int32)
    expected = x.astype(np.float32)

    def cycle(count):
        for _ in range(count):
            result = fp8moe.load(folder).program("convert")(x)
            assert result[7] == expected[7]

    cycle(2000)  # memory that is never freed, such as malloc's arenas
    before = resident_bytes()
    with open("/proc/self/maps") as file:
        maps_before = len(file.readlines())
    cycle(10_000)
    with open("/proc/self/maps") as file:
        assert len(file.readlines()) <= maps_before + 8
    # A leak of 100 bytes per cycle would be 1 MB. AddressSanitizer delays reuse of freed memory and
    # finds leaks itself.
    if "FP8MOE_PYTHON" not in os.environ:
        assert resident_bytes() - before < 1_000_000


def test_eight_threads_run_one_artifact(folder):  # noqa: F811
    convert = fp8moe.load(folder).program("convert")
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(500):
            x = rng.integers(-1000, 1000, rng.integers(1, 200)).astype(np.int32)
            if not np.array_equal(convert(x), x.astype(np.float32)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
