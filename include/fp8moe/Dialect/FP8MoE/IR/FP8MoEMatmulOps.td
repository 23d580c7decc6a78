//===- FP8MoEMatmulOps.td - Dense and grouped matmuls ------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEMATMULOPS_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEMATMULOPS_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoEMatmulInterface.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpBase.td"

/// Views and copies of a matmul's operands aside, FP8MoE_MatmulOpInterface says all
/// that passes and kernels ask.
class FP8MoE_MatmulOp<string mnemonic, FP8MoE_Groups groups = FP8MoE_NoGroups>
    : FP8MoE_Op<mnemonic, [AttrSizedOperandSegments,
        DeclareOpInterfaceMethods<FP8MoE_KernelOpInterface>, FP8MoE_TiledOpInterface,
        FP8MoE_MatmulOpInterface, FP8MoE_SizesWithEqualOperands]> {
  let arguments = !con((ins FP8MoE_MatmulTensor:$a, FP8MoE_MatmulTensor:$b), groups.operands,
    (ins Optional<FP8MoE_AnyScaleTensor>:$scaleA, Optional<FP8MoE_AnyScaleTensor>:$scaleB,
      Optional<FP8MoE_FloatTensor>:$addend,
      OptionalAttr<FP8MoE_ScaleDirectionAttr>:$direction,
      DefaultValuedAttr<FP8MoE_AccumulationAttr,
                        "::mlir::fp8moe::Accumulation::Fast">:$accumulation,
      OptionalAttr<FP8MoE_PrecisionAttr>:$precision,
      OptionalAttr<FP8MoE_KernelChoiceAttr>:$tiles));
  let results = (outs FP8MoE_FloatTensor:$result);
  let assemblyFormat = "$a `,` $b " # groups.format # [{
    (`scales` `(` custom<Scales>($scaleA, type($scaleA), $scaleB, type($scaleB))^ `)`)?
    (`direction` `` $direction^)? (`accumulation` `` $accumulation^)?
    (`accumulate` `(` $addend^ `:` type($addend) `)`)? (`precision` $precision^)?
    (`tiles` custom<KernelChoice>($tiles)^)? attr-dict `:` type($a) `,` type($b) `->` type($result)
  }];
}

def FP8MoE_LinearOp : FP8MoE_MatmulOp<"linear"> {
  let summary = "one dense matmul";
  let semantics = [{
    `[M, K] x [K, N] -> [M, N]`, as a linear layer and its gradients need it:

    | use | a | b | result |
    |---|---|---|---|
    | forward | x `[M, K]` | the weights `[N, K]`, transposed | y `[M, N]` |
    | dgrad | dy `[M, N]` | the weights `[N, K]` | dx `[M, K]` |
    | wgrad | dy, transposed: `[N, M]` | x `[M, K]` | dW `[N, K]` |

    Element types, scales (`[M]` and `[N]`), `direction`, `accumulation`, `accumulate` and
    `precision` are as of `fp8moe.grouped_matmul`, and so is what it computes: one group of
    all rows. Scales of blocks are `[M, K/32]` and `[N, K/32]`, plain or in tiles.
  }];
  let example = [{
    func.func @forward(%x: tensor<?x4096xbf16>, %w: tensor<1024x4096xbf16>)
        -> tensor<?x1024xbf16> {
      %t = fp8moe.transpose %w [1, 0] : tensor<1024x4096xbf16>
          -> tensor<4096x1024xbf16, #fp8moe.strided<[1, 0]>>
      %y = fp8moe.linear %x, %t precision <undecided, "layers.0.attention.wk", forward>
          : tensor<?x4096xbf16>, tensor<4096x1024xbf16, #fp8moe.strided<[1, 0]>>
          -> tensor<?x1024xbf16>
      return %y : tensor<?x1024xbf16>
    }
  }];
  let extraClassDeclaration = [{
    /// No groups.
    ::mlir::TypedValue<::mlir::RankedTensorType> getOffsets() { return {}; }
    ::mlir::fp8moe::GroupedDim getGroupedDim() {
      return ::mlir::fp8moe::GroupedDim::M;
    }

    /// The contracted dimension of each operand.
    int64_t getContractedDimA() { return 1; }
    int64_t getContractedDimB() { return 0; }
  }];
}

def FP8MoE_GroupedMatmulOp : FP8MoE_MatmulOp<"grouped_matmul", FP8MoE_JaggedGroups> {
  let summary = "one matmul per jagged group";
  let semantics = [{
    Multiplies each group's rows with its expert's matrix, or contracts over each group's
    rows. The ranks of the operands give the mode:

    | mode | a | b | scales a, b | result |
    |---|---|---|---|---|
    | 2D x 3D, M-grouped (forward, dgrad) | `[M, K]` | `[E, K, N]` | `[M]`, `[E, N]` | `[M, N]` |
    | 2D x 2D, K-grouped (wgrad) | `[N, M]` | `[M, K]` | `[E, N]`, `[E, K]` | `[E, N, K]` |

    Groups are ranges of M. Result rows of no group are zero; the result of an empty group
    is zero in the 2D x 2D mode. In the 2D x 2D mode both operands may have padded groups
    (the same padding along M in both).

    Element types: both operands FP8 (`e4m3 x e4m3`, `e4m3 x e5m2` or `e5m2 x e4m3`, of one
    flavour) with scales, or both bf16 without. The result is bf16 or f32.

    `direction` says which way the scales go. The product is multiplied by
    `f32(1 / s)` for `quantize` scales, and by the scale itself for `dequantize` ones.
    Reference semantics: products are summed in f64 in ascending order of the contraction.
    The sum is rounded once to f32, and multiplied by the scale of a, then of b, each
    rounded to f32. It is converted to the result type.

    b may have no scales where a has: those that its data were quantized with belong to the
    contraction, and whoever quantized a has divided its elements by them before.

    Scales of both operands may be e8m0 bytes of blocks of 32 along the contraction, as
    `fp8moe.mx_quantize` writes them; there is no `direction` then. M-grouped: of a `[M, K/32]`,
    plain, in tiles, or in tiles with padded groups of rows; of b `[E, N, K/32]`, plain or
    in tiles. K-grouped, where blocks start at each group's first row: of a
    `[N, P/32]`, of b `[K, P/32]`, in tiles with padded groups. Each element is multiplied by
    its scale, exactly, before products are summed in f64.

    With `accumulate(%c : type)`, of the result's type, that f32 is added to `f32(c)` (rounded
    to f32) before it is converted: gradients of several microbatches add up without a
    kernel of their own. (A GPU may copy an f32 `c` first that is not where the result lies.)
    Where no product is (rows of no group, empty groups) the result
    is `c`. The result is a new tensor; in an artifact it may have the memory of an argument `c`.

    `precision` says which matmul of a model this is, and whether it is worth FP8: bf16
    operands with an `undecided` one are for `fp8moe-select-precision`; no lowering takes
    them.

    On NVIDIA TMA copies move operands and result: the contracted dimension of
    operands and the last one of the result must be contiguous, and every other stride a
    multiple of 16 bytes. Operands of bf16 may be contiguous along the result's rows (the
    first one, unless groups cut them) or columns instead. Layout placement makes kernels
    write operands so.
  }];
  let example = [{
    func.func @forward(%a: tensor<?x2048x!fp8moe.e4m3>, %sa: tensor<?xf32>,
                       %b: tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>>,
                       %sb: tensor<64x1408xf32>, %ends: tensor<64xi32>)
        -> tensor<?x1408xbf16> {
      %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<64xi32>)
          scales(%sa, %sb : tensor<?xf32>, tensor<64x1408xf32>)
          direction quantize accumulation fast
          : tensor<?x2048x!fp8moe.e4m3>,
            tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>>
          -> tensor<?x1408xbf16>
      return %o : tensor<?x1408xbf16>
    }
  }];
  let extraClassDeclaration = [{
    /// M for 2D x 3D (groups are rows of the result), K for 2D x 2D (groups are
    /// contracted).
    ::mlir::fp8moe::GroupedDim getGroupedDim() {
      return getB().getType().getRank() == 3 ? ::mlir::fp8moe::GroupedDim::M
                                             : ::mlir::fp8moe::GroupedDim::K;
    }

    /// The contracted dimension of each operand.
    int64_t getContractedDimA() { return 1; }
    int64_t getContractedDimB() { return isMGrouped() ? 1 : 0; }
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEMATMULOPS_TD
