# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel and the CMake package as users install them. The wheel is built in the folder of other
tests, so no other test may run at the same time.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_package import ROOT, SANITIZED, run


LLVM = Path("/usr/lib/llvm-22/bin")


@pytest.fixture(scope="module")
def wheel(ir, build, tmp_path_factory):
    """A wheel from the existing build folder, which only links again."""
    if SANITIZED:
        pytest.skip("a wheel has no sanitizer")
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-w", folder]
    # The short form -C is newer than the oldest pip that docs/users/python.md supports.
    settings = [f"build-dir={build}", "cmake.define.FP8MOE_INCLUDE_TESTS=ON"]
    options += [word for setting in settings for word in ("--config-settings", setting)]
    try:
        run(sys.executable, "-m", "pip", "wheel", ROOT, *options, cwd=folder)
    finally:
        # Restores the build folder for other test suites.
        run("cmake", "-DFP8MOE_STATIC_LLVM=OFF", "-USKBUILD*", "-UCMAKE_INSTALL_PREFIX", build)
        run("ninja", "-C", build)
    (found,) = folder.glob("fp8moe-*.whl")
    return found


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """The wheel as it is installed in an environment."""
    folder = tmp_path_factory.mktemp("site with a space")
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--target", folder, wheel)
    return folder


def test_size(wheel):
    assert wheel.stat().st_size < 40e6


def test_needs_a_system_with_glibc_2_34_alone(site):
    for library in ("libfp8moe_runtime.so", next(site.glob("fp8moe/_mlir*.so"))):
        headers = run(LLVM / "llvm-readelf", "--needed-libs", "--version-info", site / "fp8moe" / library)
        needed = set(re.findall(r"^  (lib\S+)", headers, re.MULTILINE))
        assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libgcc_s.so.1"}
        versions = [tuple(map(int, text.split("."))) for text in re.findall(r"GLIBC_([0-9.]+)", headers)]
        assert max(versions) <= (2, 34)


def test_exports_nothing_but_its_start(site):
    """The extension exports only its init function, so its symbols cannot clash with another
    LLVM's.
    """
    (extension,) = site.glob("fp8moe/_mlir*.so")
    symbols = run(LLVM / "llvm-nm", "-D", "--defined-only", "--format=just-symbols", extension)
    assert symbols.split() == ["PyInit__mlir"]


MUSL = "-Dmusl=/lib/ld-musl-x86_64.so.1"


@pytest.mark.parametrize("machine", [["-Dplatform=aarch64"], [MUSL, "-Dglibc="]], ids=["arm64", "musl"])
def test_other_machines_are_refused(machine):
    result = subprocess.run(["cmake", *machine, "-P", str(ROOT / "cmake" / "Platform.cmake")], capture_output=True, text=True)
    assert result.returncode and "fp8moe-runtime" in result.stderr and machine[0].split("=")[1] in result.stderr


def test_musl_beside_glibc_is_no_obstacle():
    run("cmake", MUSL, "-P", ROOT / "cmake" / "Platform.cmake")


@pytest.fixture
def environment():
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FP8MOE"))}


def test_in_another_environment(site, tmp_path, environment):
    import numpy

    # NumPy and ml_dtypes come from this environment instead of the network.
    environment["PYTHONPATH"] = os.pathsep.join([str(site), str(Path(numpy.__file__).parents[1])])
    where = run(sys.executable, "-c", "import fp8moe; print(fp8moe.__file__)", env=environment, cwd=tmp_path)
    assert where.startswith(str(site))
    run(sys.executable, ROOT / "examples" / "quickstart.py", env=environment, cwd=tmp_path)


@pytest.fixture(scope="module")
def arguments():
    """Returns arguments of fp8moe-compile. ROCm's device libraries are not among them, as AMD's
    programs need none.
    """
    targets = [f"--target={chip}" for chip in ("sm_90a", "gfx942", "gfx950", "cpu")]
    return [ROOT / "examples" / "moe_backward.mlir", *targets]


@pytest.fixture(scope="module")
def built(build, arguments, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    run(build / "bin" / "fp8moe-compile", *arguments, "-o", folder)
    return folder


@pytest.mark.parametrize("command", [["-m", "fp8moe", "compile"], ["-OO", "bin/fp8moe-compile", "--rocm-path=/nonexistent"]],
                         ids=["module", "program"])
def test_writes_the_same_bytes_as_the_build(site, built, arguments, environment, command, tmp_path):
    environment["PYTHONPATH"] = str(site)
    run(sys.executable, *command, *arguments, "-o", tmp_path / "wheel", env=environment, cwd=site)
    run("diff", "-r", built, tmp_path / "wheel")


@pytest.mark.parametrize("name", ["fp8moe-compile", "fp8moe-opt", "fp8moe-run"])
def test_programs(site, build, environment, name, tmp_path):
    environment["PYTHONPATH"] = str(site)
    program = site / "bin" / name
    assert run(program, "--version", env=environment, cwd=tmp_path) == run(build / "bin" / name, "--version")
    result = subprocess.run([program, "--no-such-option"], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "--no-such-option" in result.stderr


def test_programs_run(site, built, environment, tmp_path):
    environment["PYTHONPATH"] = str(site)
    (tmp_path / "a.mlir").write_text("func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n  return %x : tensor<8x8xf32>\n}\n")
    assert "@f" in run(site / "bin" / "fp8moe-opt", "a.mlir", "--canonicalize", env=environment, cwd=tmp_path)
    described = run(site / "bin" / "fp8moe-run", built / "cpu", "--random=1", "--tokens=100", "--describe", env=environment, cwd=tmp_path)
    assert '"launches"' in described


def test_runtime_alone(built, tmp_path, environment):
    """The package fp8moe-runtime builds with a C++ compiler alone, without LLVM's CMake files."""
    environment.update(CC=str(LLVM / "clang"), CXX=str(LLVM / "clang++"))
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    hidden = [word for name in ("LLVM", "MLIR", "LLD") for word in ("--config-settings", f"cmake.define.CMAKE_DISABLE_FIND_PACKAGE_{name}=ON")]
    options = ["--no-deps", "--no-build-isolation", *hidden, "-w", tmp_path]
    run(*pip, "wheel", ROOT / "python-bindings" / "runtime", *options, env=environment)
    (wheel,) = tmp_path.glob("fp8moe_runtime-*-py3-none-*.whl")
    assert wheel.stat().st_size < 2e6
    run(*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel)
    environment["PYTHONPATH"] = str(tmp_path / "site")
    code = f"""
import fp8moe.runtime, fp8moe
assert fp8moe.__file__.startswith({str(tmp_path)!r})
print(fp8moe.load({str(built / "cpu")!r}).programs)
try:
    fp8moe.compile
except ImportError as error:
    print(error)
"""
    output = run(sys.executable, "-c", code, env=environment, cwd=tmp_path)
    assert "moe_backward" in output and "needs the compiler, which this installation lacks" in output


# Debian's LLVM and MLIR have the same version as the wheel's.
OTHERS = {
    "triton": "import triton._C.libtriton",
    "debian": f"import ctypes; ctypes.CDLL('{LLVM.parent}/lib/libMLIR.so', os.RTLD_NOW | os.RTLD_GLOBAL)",
}


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("other", OTHERS)
def test_beside_another_llvm(site, environment, other, last, tmp_path):
    """Each library's symbols are global, as some programs load them."""
    environment["PYTHONPATH"] = str(site)
    if other == "triton":
        torch = ROOT / "build/torch-env/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        if not (torch / "triton").exists():
            pytest.skip("scripts/setup_torch.sh installs triton")
        environment["PYTHONPATH"] += os.pathsep + str(torch)
    statements = ["import fp8moe.ir", OTHERS[other]]
    code = f"""
import os, sys
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
{"; ".join(reversed(statements) if last else statements)}
import fp8moe
print(len(fp8moe.compiler.emit(fp8moe.ir.Module.parse_file({str(ROOT / "examples/host/quantize.mlir")!r}), "hsaco", "gfx942")))
"""
    assert int(run(sys.executable, "-c", code, env=environment, cwd=tmp_path))


@pytest.mark.skipif(os.path.exists("/usr/local/cuda/bin/ptxas"), reason="ptxas is found in /usr/local/cuda")
@pytest.mark.parametrize("option", ["-o=out", "--emit=cubin"])
def test_without_ptxas(site, environment, option, tmp_path):
    """Without ptxas, neither on PATH nor of a package: Python's -S disables packages."""
    environment.update(PYTHONPATH=str(site), PATH="/nonexistent", CUDA_HOME="")
    program = [sys.executable, "-S", site / "bin" / "fp8moe-compile", ROOT / "examples" / "host" / "quantize.mlir"]
    result = subprocess.run([*program, "--target=sm_90a", option], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode == 0) == (option == "-o=out")
    assert "not found" in result.stderr and "pip install 'fp8moe[cuda]'" in result.stderr


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    if SANITIZED:
        pytest.skip("programs of others have no sanitizer")
    prefix = tmp_path_factory.mktemp("installed")
    for component in ("runtime", "tools", "development"):
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    return prefix


@pytest.fixture(scope="module")
def without_sources():
    """Returns without_sources(COMMAND...), which runs a command with an empty source tree, if this
    user may mount.
    """
    hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', ROOT]
    if subprocess.run([*hide, "true"], capture_output=True).returncode:
        hide = []
    return lambda *command, **options: run(*hide, *command, **options)


@pytest.fixture(scope="module")
def configure(installed, without_sources, tmp_path_factory):
    """Returns configure(NAME, OPTION...), which builds examples/NAME against an installed package,
    as another project does.
    """

    def configure(name, *options):
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(ROOT / "examples" / name, folder / "source")
        compilers = [f"-DCMAKE_{language}_COMPILER={LLVM / program}" for language, program in (("C", "clang"), ("CXX", "clang++"))]
        options = [f"-DCMAKE_PREFIX_PATH={installed};{LLVM.parent}", *compilers, *options]
        without_sources("cmake", "-G", "Ninja", "-S", "source", "-B", "build", *options, cwd=folder)
        without_sources("ninja", "-C", "build", cwd=folder)
        return folder / "build"

    return configure


def test_consumer_of_an_installation(configure):
    folder = configure("consumer")
    version = run(sys.executable, "-c", "import fp8moe; print(fp8moe.__version__)").strip()
    assert version in run(folder / "runtime-version") and version in run(folder / "compiler-version")
    program = ROOT / "examples" / "moe_backward.mlir"
    passes = "--pass-pipeline=builtin.module(func.func(fp8moe-fold-views))"
    folded = run(folder / "my-opt", passes, program)
    plugin = folder / "libfp8moe-plugin.so"
    assert run(LLVM / "mlir-opt", f"--load-dialect-plugin={plugin}", f"--load-pass-plugin={plugin}", passes, program) == folded


@pytest.fixture(scope="module")
def quantize(build, tmp_path_factory):
    """Artifacts of examples/host/quantize.mlir."""
    folder = tmp_path_factory.mktemp("quantize")
    source = ROOT / "examples" / "host" / "quantize.mlir"
    run(build / "bin" / "fp8moe-compile", source, "--target=cpu", "--target=sm_90a", "--target=gfx942", "-o", folder)
    return folder


#: Programs that include examples/host/quantize.h print this.
RESULTS = r"q F8_E4M3 [0-9a-f]{16}\nscales F32 [0-9a-f]{16}\n"


def test_pkg_config(installed, without_sources, quantize, tmp_path):
    pytest.importorskip("pkgconf")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run(sys.executable, "-m", "pkgconf", "--cflags", "--libs", "fp8moe", env=environment).split()
    for name in ("from-folder.c", "quantize.h"):
        shutil.copy(ROOT / "examples" / "host" / name, tmp_path)
    without_sources(LLVM / "clang", "from-folder.c", *flags, f"-Wl,-rpath,{installed / 'lib'}", "-o", "from-folder", cwd=tmp_path)
    assert re.fullmatch(RESULTS, run(tmp_path / "from-folder", quantize / "cpu"))


def test_hosts(build, configure, quantize, tmp_path):
    """A program that launches a manifest's kernels itself gets the results of the runtime."""
    folder = configure("host", f"-DARTIFACT={quantize / 'cpu'}")
    results = run(folder / "from-folder", quantize / "cpu")
    assert results == run(folder / "from-memory")
    assert re.fullmatch(RESULTS, results)

    for chip, variable, driver in (("sm_90a", "FP8MOE_CUDA_DRIVER", "cuda"), ("gfx942", "FP8MOE_HIP_RUNTIME", "hip")):
        log = tmp_path / f"{driver}.log"
        drivers = {variable: str(build / "lib" / f"libfp8moe_mock_{driver}.so"), "FP8MOE_MOCK_LOG": str(log)}
        output = run(folder / "launch", quantize / chip, "quantize_grad", "5000", env={**os.environ, **drivers})
        assert output == f"q: {5000 * 2048} bytes equal\nscales: {64 * 2048 * 4} bytes equal\n"
        launches = [line for line in log.read_text(errors="replace").splitlines() if " grid " in line]
        half = len(launches) // 2
        assert launches and launches[:half] == launches[half:]
