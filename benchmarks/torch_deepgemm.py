# ===- torch_deepgemm.py - DeepGEMM's bf16 grouped matmul for torch ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""DeepGEMM's bf16 grouped matmuls (https://github.com/deepseek-ai/DeepGEMM) for torch_layer.py, as
a differentiable function that torch.compile accepts.

Each of its row tiles lies in one group. Its K-grouped matmul takes group sizes from the host and
adds to float32. It gets these sizes and zeros here, and the result is cast to bf16.
"""

import functools
import importlib.util

# Groups must be multiples of this number of rows.
ROWS = 128
M_GROUPED, K_GROUPED = "m_grouped_bf16_gemm_nt_contiguous", "k_grouped_bf16_gemm_tn_contiguous"


def why_not(multiple):
    """Returns the reason why DeepGEMM cannot run with groups that are multiples of this number, or
    None.
    """
    if not importlib.util.find_spec("deep_gemm"):
        return "Python does not find deep_gemm"
    if multiple % ROWS:
        return f"its groups are multiples of {ROWS} rows: give --group-multiple={ROWS}"
    try:
        import deep_gemm
    except (ImportError, OSError) as error:
        return f"deep_gemm cannot be imported ({error})"
    return None if hasattr(deep_gemm, M_GROUPED) else f"deep_gemm has no {M_GROUPED}"


def name():
    """Returns the contender's name, which mentions the parts that torch does."""
    import deep_gemm

    return "DeepGEMM bf16" if hasattr(deep_gemm, K_GROUPED) else "DeepGEMM bf16, K-grouped torch"


@functools.lru_cache(maxsize=None)
def operators():
    """Registers operators, so that graphs contain them.

    They compute x [M, K] by weights [E, N, K], or by a view of [E, K, N], and the gradient of
    weights [E, N, K].
    """
    import deep_gemm
    import torch

    @torch.library.custom_op("fp8moe_benchmark::deepgemm", mutates_args=())
    def m_grouped(x: torch.Tensor, weights: torch.Tensor, group_of_row: torch.Tensor) -> torch.Tensor:
        y = x.new_empty(x.shape[0], weights.shape[1])
        getattr(deep_gemm, M_GROUPED)(x, weights, y, group_of_row)
        return y

    @m_grouped.register_fake
    def _(x, weights, group_of_row):
        return x.new_empty(x.shape[0], weights.shape[1])

    @torch.library.custom_op("fp8moe_benchmark::deepgemm_grad_weights", mutates_args=())
    def k_grouped(grad_y: torch.Tensor, x: torch.Tensor, sizes_on_device: torch.Tensor, sizes: list[int]) -> torch.Tensor:
        sums = torch.zeros(len(sizes), grad_y.shape[1], x.shape[1], device=x.device, dtype=torch.float32)
        getattr(deep_gemm, K_GROUPED)(grad_y, x, sums, sizes, sizes_on_device, sums)
        return sums

    @k_grouped.register_fake
    def _(grad_y, x, sizes_on_device, sizes):
        return x.new_empty(len(sizes), grad_y.shape[1], x.shape[1], dtype=torch.float32)

    return m_grouped, k_grouped if hasattr(deep_gemm, K_GROUPED) else None


def make_matmul(ends, device):
    """Returns the grouped matmul of x [M, K] and weights [E, K, N] (dense as [E, N, K]) for groups
    with these ends.
    """
    import torch

    m_grouped, k_grouped = operators()
    sizes = [end - begin for begin, end in zip([0, *ends], ends)]
    sizes_on_device = torch.tensor(sizes, dtype=torch.int32, device=device)
    numbers = torch.arange(len(ends), dtype=torch.int32, device=device)
    group_of_row = torch.repeat_interleave(numbers, sizes_on_device)

    class GroupedMM(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weights, offsets):
            ctx.save_for_backward(x, weights, offsets)
            return m_grouped(x, weights.transpose(-2, -1), group_of_row)

        @staticmethod
        def backward(ctx, grad_y):
            x, weights, offsets = ctx.saved_tensors
            grad_y = grad_y.contiguous()
            if k_grouped:
                gradient = k_grouped(grad_y, x, sizes_on_device, sizes).to(weights.dtype)
            else:
                gradient = torch._grouped_mm(grad_y.t(), x, offsets)
            return m_grouped(grad_y, weights, group_of_row), gradient.transpose(-2, -1), None

    return GroupedMM.apply
