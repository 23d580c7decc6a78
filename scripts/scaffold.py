#!/usr/bin/env python3
# ===- scaffold.py - The beginning of a kernel family ----------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Writes a kernel family that compiles and runs, for an operation on one matrix without a kernel.

    scripts/scaffold.py Gelu GeluOp

It writes lib/Kernels/Gelu with model, kernel, launch and README, a test in test/Kernels/Gelu, and
rows of Families.def.
The kernel copies the operand 16 bytes at a time, for any layout. Its function `compute` remains to
be written. The operation must exist before, with its lowering to loops and its tests
(CONTRIBUTING.md, "Adding an operation").
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

BANNER = """//===- {file} - {what} {dashes}===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
"""

SOURCE = """
#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Program/ProgramLowering.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kThreads = 256;

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

namespace {
/// The operation as models see it. Sizes may be kDynamic.
struct @NAME@Work : KernelWorkBase<@NAME@Work> {
  int64_t rows = 1;
  /// Bytes that are read and written for a row.
  int64_t rowBytes = 0;
  /// Whether elements are bf16 or f32.
  bool isFloat = false;

  static @NAME@Work get(@OP@ op);
};
} // namespace

@NAME@Work @NAME@Work::get(@OP@ op) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  @NAME@Work work;
  work.rows = type.getDimSize(0);
  work.rowBytes = 2 *
                  getModelledSize(type.getDimSize(1), kNominalTokens,
                                  kMostModelledSize) *
                  getElementBytes(type.getElementType()).value_or(1);
  work.isFloat = type.getElementType().isBF16() || type.getElementType().isF32();
  return work;
}

namespace {
class @NAME@Problem : public KernelProblem {
public:
  bool matches(Operation *op) const override { return isa<@OP@>(op); }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout>,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(@NAME@Work::get(cast<@OP@>(op)));
  }
  StringRef describeKernels(Operation *) const override {
    return "elements are bf16 or f32";
  }
};

class @NAME@Family : public UntiledFamily<@NAME@Work> {
public:
  StringRef getName() const override { return "@MNEMONIC@"; }

protected:
  bool takes(const @NAME@Work &work, const TargetInfo &) const override {
    return work.isFloat;
  }
  Cost predict(const @NAME@Work &work, const TargetInfo &target) const override {
    int64_t rows = getModelledSize(work.rows, kNominalTokens,
                                   kMostModelledBytes / work.rowBytes);
    return estimateTraffic(rows * work.rowBytes, target);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, @NAME@Problem)
FP8MOE_DEFINE_ROW(KernelFamily, @NAME@Family)

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

namespace {
/// Strides are in elements.
template <typename T> struct Sizes {
  T rows, columns, inputPitch, inputStep, outputPitch, outputStep;

  static constexpr auto members() {
    return std::array{&Sizes::rows,       &Sizes::columns,
                      &Sizes::inputPitch, &Sizes::inputStep,
                      &Sizes::outputPitch, &Sizes::outputStep};
  }
};

/// The promised alignment of addresses, in bytes.
struct Alignments {
  int64_t input, output;
};
} // namespace

/// A thread computes 16 bytes of a row.
static void build@NAME@(KernelBuilder &b, Type elementType,
                        const Sizes<int64_t> &known, Alignments alignments) {
  unsigned parameter = 0;
  Sizes<Value> sizes = bindSizes(b, known, parameter);
  auto makePlane = [&](unsigned index, StringRef name, Value pitch, Value step,
                       int64_t alignment) {
    Plane plane{b.getPointer(index, name),
                elementType.getIntOrFloatBitWidth() / 8, step, pitch, Value()};
    plane.vectorizable = createVectorizable(
        b, plane.base, alignment, plane.elementBytes, step, {pitch});
    return plane;
  };
  Plane input = makePlane(0, "input", sizes.inputPitch, sizes.inputStep,
                          alignments.input);
  Plane output = makePlane(1, "output", sizes.outputPitch, sizes.outputStep,
                           alignments.output);
  IndexRange columns{b.i64(0), sizes.columns};
  Value chunksOfRow = b.ceilDiv(sizes.columns, input.getChunk());
  Value count = b.named("chunks", b.mul(sizes.rows, chunksOfRow));
  b.forEachWorkTile(b.ceilDiv(count, kThreads), [&](Value workTile) {
    Value index =
        b.named("chunk", b.add(b.mul(workTile, kThreads), b.getThread()));
    b.createIf(b.less(index, count), [&] {
      Value row = b.named("row", b.divU(index, chunksOfRow));
      Value column = b.named(
          "column", b.mul(b.remU(index, chunksOfRow), input.getChunk()));
      Value words = loadChunks(b, input, column, 1, row, columns).front();
      SmallVector<Value> values =
          b.unpackFloats(b.unpackWords(words), elementType);
      {
        KernelBuilder::Step step(b, "compute");
        // Replace each value (f32) by that of the operation here.
      }
      storeChunk(b, output, column, row,
                 b.packWords(b.packFloats(values, elementType)), columns);
    });
  });
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

static LogicalResult lower@NAME@(Operation *op, ProgramLowering &lowering) {
  if (failed(requireKernels(op, lowering.getTarget())) ||
      failed(lowering.createResult(op->getOpResult(0))))
    return failure();
  BufferView input = lowering.getView(op->getOperand(0)),
             output = lowering.getView(op->getResult(0));
  Type elementType =
      cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  Sizes<OpFoldResult> sizes{input.sizes[0],    input.sizes[1],
                            input.strides[0],  input.strides[1],
                            output.strides[0], output.strides[1]};
  Sizes<int64_t> known = getKnownSizes(sizes);
  Alignments alignments{getBufferAlignment(input), getBufferAlignment(output)};
  KernelLaunch launch{"@MNEMONIC@",
                      {TypeAttr::get(elementType)},
                      {alignments.input, alignments.output},
                      kThreads,
                      {input.buffer, output.buffer},
                      listSizes(sizes)};
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  int64_t chunk = kVectorBytes * 8 / elementType.getIntOrFloatBitWidth();
  OpFoldResult chunks = size.mul(sizes.rows, size.ceilDiv(sizes.columns, chunk));
  lowering.launchKernel(
      op->getLoc(), launch, size.ceilDiv(chunks, kThreads),
      [&](KernelBuilder &b) { build@NAME@(b, elementType, known, alignments); });
  return success();
}

FP8MOE_DEFINE_OP_LOWERING(@NAME@, "fp8moe.@MNEMONIC@", isAnyOf<@OP@>, lower@NAME@)
"""

README = """# @NAME@

**Computes** `fp8moe.@MNEMONIC@`.

**Chosen** for every such operation on bf16 or f32, on all GPUs.

**Memory.** A thread reads 16 bytes of a row, computes in f32, and writes 16 bytes.

| file | what |
|---|---|
| `@NAME@` | work of an operation and predicted time; the kernel; its launch |

Tests: `test/Kernels/@NAME@`.
"""

TEST = """// A thread computes 16 bytes of a row.
//
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=sm_90a --convert-fp8moe-to-gpu | FileCheck %s
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=gfx942 --convert-fp8moe-to-gpu | FileCheck %s

// CHECK-LABEL: gpu.func @@MNEMONIC@_0
//       CHECK:   llvm.load {{.*}} -> vector<4xi32>
//       CHECK:   llvm.store {{.*}} : vector<4xi32>

// CHECK-LABEL: fp8moe_plan.program @f
//       CHECK:   fp8moe_plan.launch @fp8moe_kernels::@@MNEMONIC@_0
func.func @f(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %r = "fp8moe.@MNEMONIC@"(%x) : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %r : tensor<?x64xbf16>
}
"""


def find_mnemonic(root, op):
    """Returns the mnemonic of the operation with class `op`, or nothing if no .td file declares it."""
    for path in sorted((root / "include").rglob("*.td")):
        if found := re.search(rf"^def FP8MoE_{re.escape(op)}\b[^{{]*?\"(\w+)\"", path.read_text(), flags=re.MULTILINE):
            return found.group(1)
    return None


def make_banner(file, what):
    dashes = "-" * (80 - len("//===-  -  ===//") - len(file) - len(what))
    return BANNER.format(file=file, what=what, dashes=dashes)


def add_rows(text, name):
    """Returns the table with rows after the last ones of their kind."""
    for kind in ("FP8MOE_OPS", "FP8MOE_FAMILY"):
        last = list(re.finditer(rf"^{kind}\(\w+\)\n", text, flags=re.MULTILINE))[-1].end()
        text = text[:last] + f"{kind}({name})\n" + text[last:]
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the family and its folder, such as Gelu")
    parser.add_argument("op", help="C++ class of its operation, such as GeluOp; takes one matrix, returns one of its shape and type")
    parser.add_argument("--root", type=Path, default=ROOT, help="another clone of the repository")
    args = parser.parse_args()

    folder = args.root / "lib" / "Kernels" / args.name
    table = args.root / "lib" / "Kernels" / "Families.def"
    tests = args.root / "test" / "Kernels" / args.name
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", args.name):
        parser.error(f"'{args.name}' is no name of a class: letters and digits, the first one upper case")
    if not table.exists():
        parser.error(f"{table} is missing; --root names a clone of the repository")
    rows = table.read_text()
    if args.name == "Kernel" or re.search(rf"\({args.name}\b", rows) or folder.exists() or tests.exists():
        parser.error(f"{args.name} is taken: look into {table}, {folder} and {tests}")
    if not (mnemonic := find_mnemonic(args.root, args.op)):
        parser.error(f"no .td file in {args.root / 'include'} declares FP8MoE_{args.op}; declare the operation first")

    def fill(text):
        return text.replace("@NAME@", args.name).replace("@OP@", args.op).replace("@MNEMONIC@", mnemonic)

    files = {
        folder / f"{args.name}.cpp": make_banner(f"{args.name}.cpp", f"Kernels of fp8moe.{mnemonic}") + SOURCE,
        folder / "README.md": README,
        tests / f"{mnemonic.replace('_', '-')}.mlir": TEST,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill(text))
        print(f"wrote {path}")
    if formatter := shutil.which("clang-format-22"):
        subprocess.run([formatter, "-i", f"--style=file:{ROOT / '.clang-format'}", folder / f"{args.name}.cpp"], check=True)
    table.write_text(add_rows(rows, args.name))
    print(f"added two rows to {table}")
    print("next: the step `compute`, numerics in test/Integration, a line in lib/Kernels/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
