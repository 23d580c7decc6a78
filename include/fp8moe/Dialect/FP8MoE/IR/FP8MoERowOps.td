//===- FP8MoERowOps.td - What is between matmuls -----------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEROWOPS_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEROWOPS_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpBase.td"

/// An operation that computes each row of its result from rows of its operands.
class FP8MoE_RowOp<string mnemonic>
    : FP8MoE_Op<mnemonic, [FP8MoE_KernelOpInterface, FP8MoE_RowOpInterface,
                           FP8MoE_SizesWithEqualOperands]> {
  let extraClassDeclaration = [{
    /// Verifiers say which layouts kernels take.
    ::mlir::fp8moe::TensorAccess getTensorAccess(
        ::mlir::Value, const ::mlir::fp8moe::TargetInfo &) {
      return ::mlir::fp8moe::TensorAccess::fixed();
    }
  }];
}

def FP8MoE_GatherRowsOp : FP8MoE_RowOp<"gather_rows"> {
  let summary = "rows by their numbers";
  let semantics = [{
    Row m of the result is row `rows[m]` of the input, as in sorting tokens by expert. A
    number that is no row of the input makes a row of zeros.

    A kernel that quantizes the result along both axes may gather the rows itself; then
    nobody writes the result (see `#fp8moe.rescaled_both_axes`).

    Shapes: input `[T, K]`, row numbers `[M]`, result `[M, K]`. Rows are contiguous. On
    GPUs K is known, and a multiple of 16.
  }];
  let example = [{
    func.func @sort_tokens(%x: tensor<?x2048xbf16>, %rows: tensor<?xi32>)
        -> tensor<?x2048xbf16> {
      %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>)
          : tensor<?x2048xbf16> -> tensor<?x2048xbf16>
      return %r : tensor<?x2048xbf16>
    }
  }];
  let arguments = (ins FP8MoE_FloatTensor:$input, FP8MoE_RowNumbers:$rows);
  let results = (outs FP8MoE_FloatTensor:$result);
  let assemblyFormat = [{
    $input `rows` `(` $rows `:` type($rows) `)` attr-dict `:` type($input) `->` type($result)
  }];
}

def FP8MoE_SwiGLUOp : FP8MoE_RowOp<"swiglu"> {
  let summary = "silu(gate) * up, of both halves of a row";
  let semantics = [{
    For the halves g and u of a row of the input, `cast(g * sigmoid(g) * u)` in f32. With
    `times` the product has a last factor, the row's weight: that of a router for the expert.
    All kernels of a target compute the same bits; targets differ in those of the sigmoid.

    Shapes: input `[M, 2H]`, weights `[M]`, result `[M, H]`. Rows are contiguous. On
    GPUs H is known, and a multiple of 16.
  }];
  let example = [{
    func.func @activation(%h: tensor<?x1536xbf16>, %weights: tensor<?xf32>)
        -> tensor<?x768xbf16> {
      %a = fp8moe.swiglu %h times(%weights : tensor<?xf32>)
          : tensor<?x1536xbf16> -> tensor<?x768xbf16>
      return %a : tensor<?x768xbf16>
    }
  }];
  let arguments = (ins FP8MoE_FloatTensor:$input, Optional<FP8MoE_ScaleTensor>:$weights);
  let results = (outs FP8MoE_FloatTensor:$result);
  let assemblyFormat = [{
    $input (`times` `(` $weights^ `:` type($weights) `)`)? attr-dict `:` type($input) `->` type($result)
  }];
}

def FP8MoE_SwiGLUGradientOp : FP8MoE_RowOp<"swiglu_gradient"> {
  let summary = "the gradient of fp8moe.swiglu without weights";
  let semantics = [{
    The gradients of g and of u, the halves of a row of the input, from the gradient d of
    their `swiglu`. With `s = sigmoid(g)`, in f32 and in this order:
    `cast(d * u * s * (g * (1 - s) + 1))` and `cast(d * g * s)`.

    Shapes: gradient `[M, H]`, input and result `[M, 2H]`. Rows are contiguous. On
    GPUs H is known, and a multiple of 16.
  }];
  let example = [{
    func.func @backward(%d: tensor<?x768xbf16>, %h: tensor<?x1536xbf16>)
        -> tensor<?x1536xbf16> {
      %dh = fp8moe.swiglu_gradient %d, %h
          : tensor<?x768xbf16>, tensor<?x1536xbf16> -> tensor<?x1536xbf16>
      return %dh : tensor<?x1536xbf16>
    }
  }];
  let arguments = (ins FP8MoE_FloatTensor:$gradient, FP8MoE_FloatTensor:$input);
  let results = (outs FP8MoE_FloatTensor:$result);
  let assemblyFormat = [{
    $gradient `,` $input attr-dict `:` type($gradient) `,` type($input) `->` type($result)
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEROWOPS_TD
