"""Reads the compiler's layout decisions from IR.

The chain `.t().contiguous().t()`, which frameworks export before a column-wise quantization, has a
copy. The compiler removes it.
"""

import argparse

import fp8moe
from fp8moe import ir, ops

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("chip", nargs="?", default="sm_90a", choices=fp8moe.targets(), help="chip for which the layouts are chosen (default: sm_90a)")
CHIP = parser.parse_args().chip
COLUMN_MAJOR = ir.StridedEncoding([1, 0])

module = ir.Module()
types = {"grad": ir.tensor([None, 2048], "bf16"), "offsets": ir.tensor([64], "i32")}
with module.function("quantize_grad", **types) as f:
    grad, offsets = f.arguments
    column_major = ops.transpose(
        ops.contiguous(ops.transpose(grad, permutation=[1, 0])), permutation=[1, 0]
    )
    op = ops.jagged_dynamic_quantize(
        column_major, offsets, axes=[0], rounding="pow2",
        quantized=[ir.tensor([None, 2048], "e4m3", COLUMN_MAJOR)], scales=[ir.tensor([64, 2048], "f32")],
    )  # fmt: skip
    f.returns(q=op.quantized[0], scales=op.scales[0])

print("As written, the gradient and what the kernel reads lie so:\n")
fp8moe.show(grad.type)
print()
fp8moe.show(column_major.type)

optimized = fp8moe.optimize(module, CHIP)
copies = [len(list(m.walk(ops.ContiguousOp))) for m in (module, optimized)]
print(f"\nCopies: {copies[0]} as written, {copies[1]} for {CHIP}.\n")
for kernel in optimized.walk(ops.JaggedDynamicQuantizeOp):
    print(f"{kernel.name} at {kernel.location}")
    print(f"  reads  {kernel.input.type}")
    print(f"  writes {kernel.quantized[0].type}")
    print(f"  tiles  {kernel.tiles}")

print("\nPadded groups, as a matmul that contracts over them wants them:\n")
fp8moe.show(ir.StridedEncoding([1, 0], groups=ir.GroupPadding(dim=0, pad=4)))
print("\nBlock scales, as tensor cores read them:\n")
fp8moe.show(ir.ScaleBlockedEncoding(128, 4))
