//===- FP8MoELayoutOps.td - Views and copies ---------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOELAYOUTOPS_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOELAYOUTOPS_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpBase.td"

def FP8MoE_TransposeOp : FP8MoE_Op<"transpose", [FP8MoE_InferredType]> {
  let summary = "view with permuted dimensions";
  let semantics = [{
    Result dimension i is input dimension `permutation[i]`. No byte moves: the result's
    layout is the input's, permuted in the same way, so a row-major tensor becomes a
    column-major one. Padded groups follow their dimension. The result may promise the
    input's alignment or less, never more.

    Shapes: any rank r; `permutation` is a permutation of 0..r-1. A tensor with a blocked
    layout has one order only and can be permuted by the identity alone.
  }];
  let example = [{
    func.func @view(%x: tensor<?x2048xbf16>)
        -> tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>> {
      %t = fp8moe.transpose %x [1, 0]
          : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>
      return %t : tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>
    }
  }];
  let arguments = (ins FP8MoE_AnyTensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs FP8MoE_AnyTensor:$result);
  let assemblyFormat = [{
    $input $permutation attr-dict `:` type($input) `->` type($result)
  }];
  let hasFolder = 1;
}

def FP8MoE_ReshapeOp : FP8MoE_Op<"reshape"> {
  let summary = "view that merges or splits dimensions";
  let semantics = [{
    Reads the same bytes under another shape; elements keep their row-major *logical*
    order. A run of input dimensions is merged into one result dimension, or one input
    dimension is split into a run. Merged dimensions must be adjacent in memory, so that no
    byte moves. Otherwise the operation is refused: use `fp8moe.contiguous`
    first. A split may have at most one `?` in the result, which follows by division; the
    known parts must divide the size that is split. Where `?` leaves several ways to match
    the dimensions, as from `[?, 4, ?]` to `[?, ?]`, the operation is refused.
    Tensors with padded groups or blocked scales cannot be reshaped.

    The result's layout follows from the input's. It may promise the input's alignment
    (where the pitches that a split creates allow that) or less, never more.

    Shapes: any ranks with equal element counts.
  }];
  let example = [{
    func.func @experts_as_rows(%w: tensor<64x2048x1408xbf16>) -> tensor<131072x1408xbf16> {
      %v = fp8moe.reshape %w : tensor<64x2048x1408xbf16> -> tensor<131072x1408xbf16>
      return %v : tensor<131072x1408xbf16>
    }
  }];
  let arguments = (ins FP8MoE_AnyTensor:$input);
  let results = (outs FP8MoE_AnyTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def FP8MoE_ContiguousOp : FP8MoE_Op<"contiguous", [FP8MoE_InferredType]> {
  let summary = "copy to dense row-major";
  let semantics = [{
    The same values in dense row-major order, as PyTorch's `.contiguous()`. Bytes move
    unless the input already lies so. Tensors with padded groups or blocked scales are
    copied with `fp8moe.relayout` instead.

    Shapes: any shape; the result has the input's.
  }];
  let example = [{
    func.func @copy(%x: tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>) -> tensor<2048x?xbf16> {
      %c = fp8moe.contiguous %x
          : tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>> -> tensor<2048x?xbf16>
      return %c : tensor<2048x?xbf16>
    }
  }];
  let arguments = (ins FP8MoE_AnyTensor:$input);
  let results = (outs FP8MoE_AnyTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def FP8MoE_RelayoutOp : FP8MoE_Op<"relayout"> {
  let summary = "copy to another layout";
  let semantics = [{
    The same values in the layout of the result type. Bytes move unless both layouts are
    the same. Explicit strides of the result must all be known.

    When one side only has padded groups, `groups` gives their offsets. Padding a tensor
    writes zeros between the groups and leaves out rows of no group. Packing one leaves
    out the padding and makes rows of no group zero. When both sides pad their groups
    alike, the padded extent is copied as it is, without `groups`.

    A copy of plain block scales to `#fp8moe.scale_blocked` (and back) is a relayout too;
    its padding bytes are zero.

    Shapes: input and result have the same rank and the same sizes, but for a dimension
    whose groups are padded or packed: M there is `round_up(M + E * (pad - 1), pad)` on the
    padded side. A result with packed groups should have a static size there, because the
    padded extent does not determine it.
  }];
  let example = [{
    func.func @to_column_major(%x: tensor<?x2048xbf16>)
        -> tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>> {
      %r = fp8moe.relayout %x
          : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>>
      return %r : tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>>
    }
  }];
  let arguments = (ins FP8MoE_AnyTensor:$input, Optional<FP8MoE_Offsets>:$offsets);
  let results = (outs FP8MoE_AnyTensor:$result);
  let assemblyFormat = [{
    $input (`groups` `(` $offsets^ `:` type($offsets) `)`)? attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOELAYOUTOPS_TD
