# ===- test_traffic.py - What ncu counted, read back -----------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""benchmarks/traffic.py adds up the kernels of each contender, or says why nothing was counted.

The input is output of Nsight Compute on an H200, with fewer columns.
"""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import traffic  # noqa: E402

RANGE = '"918  ""<default domain>:contender/forward 12288x3072x4096x12 201523200 {}/end:none:none:none:none:none:none"" "'
OUTPUT = f"""\
==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling results may be inconsistent.
==PROF== Connected to process 918 (/usr/bin/python3.12)
==PROF== Disconnected from process 918
"ID","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","l1tex__m_xbar2l1tex_read_bytes.sum"
"","","","byte","byte","byte"
"0",{RANGE.format("fp8moe")},"grouped_matmul_0","202,159,872","66,148,352","2,569,526,912"
"1",{RANGE.format("torch")},"void at::prepare_grouped_gemm_data<float, cute::tuple<int, int>>(T1 *, T2 *)","11,520","0","64"
"2",{RANGE.format("torch")},"void cutlass::device_kernel<gemm>","203,000,000","66,000,000","2,100,000,000"
"3","","elementwise_kernel","1","1","1"
"""

FAKE = """\
#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
{}
"""


def test_kernels_of_a_contender_are_added_up():
    ours, torch = "forward 12288x3072x4096x12 201523200 fp8moe", "forward 12288x3072x4096x12 201523200 torch"
    assert traffic.parse(OUTPUT) == {
        ours: traffic.Traffic(read=202159872, written=66148352, loaded=2569526912),
        torch: traffic.Traffic(read=203011520, written=66000000, loaded=2100000064),
    }


@pytest.mark.parametrize("text", ["", "==ERROR== The user does not have permission to access NVIDIA GPU Performance Counters\n"])
def test_nothing_was_counted(text):
    assert traffic.parse(text) == {}


def test_names_of_kernels_may_have_several_lines():
    assert len(traffic.parse(OUTPUT.replace("(T1 *, T2 *)", "(T1 *,\nT2 *)"))) == 2


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ('"202,159,872"', '"n/a"', "counted 'n/a' as dram__bytes_read.sum of forward"),
        ('"202,159,872"', '"nan"', "counted 'nan' as dram__bytes_read.sum"),
        ("dram__bytes_write.sum", "dram__other.sum", "asked for bytes of dram__bytes_write.sum, and printed none"),
        ('"byte","byte","byte"', '"byte","Mbyte","byte"', "asked for bytes of dram__bytes_write.sum, and printed none"),
        (',"66,148,352","2,569,526,912"', "", "counted '' as dram__bytes_read.sum"),
    ],
)
def test_what_is_no_number_of_bytes(old, new, expected):
    assert old in OUTPUT
    with pytest.raises(SystemExit, match=expected):
        traffic.parse(OUTPUT.replace(old, new))


def fake_ncu(tmp_path, monkeypatch, text):
    tool = tmp_path / "ncu"
    tool.write_text(FAKE.format(text))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_counts_of_a_command(tmp_path, monkeypatch):
    (tmp_path / "output").write_text(OUTPUT)
    fake_ncu(tmp_path, monkeypatch, f'cat {tmp_path}/output > "$2"')
    assert len(traffic.count(["true"])) == 2


def test_says_what_ncu_said(tmp_path, monkeypatch):
    fake_ncu(tmp_path, monkeypatch, 'echo "==ERROR== ERR_NVGPUCTRPERM: ask the administrator" > "$2"; exit 1')
    with pytest.raises(SystemExit, match="exited with 1\n==ERROR== ERR_NVGPUCTRPERM: ask the administrator"):
        traffic.count(["true"])


def test_finds_nothing(tmp_path, monkeypatch):
    fake_ncu(tmp_path, monkeypatch, "true")
    with pytest.raises(SystemExit, match="ncu found no kernel to count"):
        traffic.count(["true"])


def test_needs_ncu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="ncu is not on the PATH"):
        traffic.count(["true"])


BENCHMARK = Path(traffic.__file__).with_name("grouped_matmul.py")


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--byte"], "unrecognized arguments: --byte"),
        (["--bytes", "--power", "1"], "--bytes and --once time nothing; leave out"),
        (["--modes", "forwrd"], "expected forward, gradient or both with a comma, found 'forwrd'"),
        (["--shapes", "0,99"], "--shapes takes numbers from 0 to 17 with commas, found '0,99'"),
    ],
)
def test_options_of_the_benchmark(arguments, expected):
    result = subprocess.run([sys.executable, BENCHMARK, "artifact", *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and expected in result.stderr


def test_the_benchmark_runs_itself_once(tmp_path, monkeypatch):
    """Under ncu the benchmark runs its own command, with --once instead of --bytes."""
    fake_ncu(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/command; exit 3')
    command = [sys.executable, BENCHMARK, "artifact", "--shapes", "0", "--bytes"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "exited with 3" in result.stderr
    assert (tmp_path / "command").read_text().split()[2:] == [sys.executable, str(BENCHMARK), "artifact", "--shapes", "0", "--once"]
