# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step 6 of docs/users/tutorial.md: one MoE layer, trained in bf16 and in FP8 from the same weights on the same data.

    python examples/tutorial/train.py [bf16 | fp8]       (default: both, one after the other)
"""

import sys

import torch
import torch.nn.functional as F

TOKENS, WIDTH, HIDDEN, EXPERTS, STEPS = 256, 64, 96, 4, 30


class Experts(torch.nn.Module):
    """SwiGLU experts; each token goes to one of them."""

    def __init__(self, precision):
        super().__init__()
        self.precision = precision
        self.router = torch.nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate_up = torch.nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * HIDDEN) * WIDTH**-0.5)
        self.down = torch.nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * HIDDEN**-0.5)

    def forward(self, x):
        chosen = self.router(x).argmax(-1)
        order = chosen.argsort()
        offsets = torch.bincount(chosen, minlength=EXPERTS).cumsum(0, dtype=torch.int32)  # ends of groups
        rows = x[order]
        if self.precision == "fp8":
            import fp8moe.torch

            y = fp8moe.torch.experts(rows, self.gate_up, self.down, offsets, recipe="rowwise")
        else:
            gate, up = F.grouped_mm(rows, self.gate_up, offs=offsets).chunk(2, -1)
            y = F.grouped_mm(F.silu(gate) * up, self.down, offs=offsets)
        return torch.zeros_like(x).index_copy(0, order, y)


def train(precision, device):
    torch.manual_seed(0)
    model = Experts(precision).to(device, torch.bfloat16)
    teacher = Experts("bf16").to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        x = torch.randn(TOKENS, WIDTH, device=device, dtype=torch.bfloat16)
        with torch.no_grad():
            target = teacher(x)
        loss = F.mse_loss(model(x).float(), target.float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == STEPS - 1:
            print(f"{precision:4} step {step:2}: loss {loss.item():.4f}")
    return loss.item()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for precision in sys.argv[1:] or ["bf16", "fp8"]:
        train(precision, device)
