"""The backward of a grouped matmul in FP8, from IR to numbers: dW[g] = x[rows of g]^T dy[rows of g].

On an H100 or H200, with torch: quickstart.py cuda:0 sm_90a
"""

import argparse

import ml_dtypes
import numpy as np

import fp8moe
from fp8moe import ir, ops

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("device", nargs="?", default="cpu", help="device of the run (default: cpu)")
parser.add_argument("chip", nargs="?", default="cpu", choices=fp8moe.targets(), help="chip to compile for (default: cpu)")
options = parser.parse_args()
T, K, N, E = 2048, 256, 384, 4  # tokens, columns of x and of dy, experts
COLUMN_MAJOR = ir.StridedEncoding([1, 0])


def quantize(tensor: ir.Value, offsets: ir.Value) -> ops.JaggedDynamicQuantizeOp:
    """Quantizes by group and column, for a matmul that contracts over rows."""
    data = ir.tensor(tensor.type.shape, "e4m3", COLUMN_MAJOR)
    scales = ir.tensor([E, tensor.type.shape[1]], "f32")
    return ops.jagged_dynamic_quantize(
        tensor, offsets, axes=[0], rounding="pow2", quantized=[data], scales=[scales]
    )


# Build.
module = ir.Module()
types = {"x": ir.tensor([T, K], "bf16"), "dy": ir.tensor([T, N], "bf16"), "offsets": ir.tensor([E], "i32")}
with module.function("weight_gradient", **types) as f:
    x, dy, offsets = f.arguments
    qx, qdy = quantize(x, offsets), quantize(dy, offsets)
    qx_t = ops.transpose(qx.quantized[0], permutation=[1, 0])  # a view
    dw = ops.grouped_matmul(
        qx_t, qdy.quantized[0], offsets, scale_a=qx.scales[0], scale_b=qdy.scales[0],
        direction="quantize", result=ir.tensor([E, K, N], "f32"),
    )  # fmt: skip
    f.returns(dw=dw)

# Compile.
artifact = fp8moe.compile(module, targets=[options.chip])
print(artifact.report)

# Run.
rng = np.random.default_rng(0)
act, grad = (rng.standard_normal((T, width)).astype(ml_dtypes.bfloat16) for width in (K, N))
ends = np.array([500, 500, 1200, T], np.int32)  # the second expert has no tokens
program = artifact.load(options.device).program()
if options.device == "cpu":
    result = program(x=act, dy=grad, offsets=ends)
else:
    import torch

    tensors = [torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).to(options.device) for a in (act, grad)]
    result = program(*tensors, torch.from_numpy(ends).to(options.device)).cpu().numpy()

# Check.
groups = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends)]
exact = np.stack([act[g].astype("f4").T @ grad[g].astype("f4") for g in groups])
error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
print(f"relative error of FP8 against f32: {error:.3f}")
assert error < 0.05  # e4m3 has three bits of mantissa
