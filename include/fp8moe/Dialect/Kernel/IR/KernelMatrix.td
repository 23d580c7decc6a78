//===- KernelMatrix.td - Matrix units ----------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_IR_KERNELMATRIX_TD
#define FP8MOE_DIALECT_KERNEL_IR_KERNELMATRIX_TD

include "fp8moe/Dialect/Kernel/IR/KernelDialect.td"

//===----------------------------------------------------------------------===//
// wgmma, of NVIDIA's Hopper only
//===----------------------------------------------------------------------===//

def Kernel_WgmmaFenceOp : Kernel_Op<"wgmma_fence"> {
  let summary = "order registers before wgmma";
  let semantics = [{
    Executed by a converged warpgroup: 128 threads. Orders accesses to accumulators before
    later `wgmma` that use them. It precedes the first one, and each one whose accumulators
    other instructions have touched.
  }];
  let example = "fp8moe_kernel.wgmma_fence";
}

def Kernel_WgmmaOp : Kernel_Op<"wgmma", [
    AllTypesMatch<["accumulators", "result"]>]> {
  let summary = "multiply matrices in shared memory";
  let semantics = [{
    Executed by a converged warpgroup. Multiplies 64 rows of A by N columns of B, along 32
    bytes of the contraction. Adds 64 x N accumulators of `f32`, or zeros where `accumulate`
    is 0. Operands lie in shared memory behind descriptors of PTX, and are read by the
    asynchronous proxy. A thread holds N / 2 accumulators, four for each eight columns, so
    the type of the accumulators says what N is. The
    first two of thread t lie in row 16 * (t / 32) + t mod 32 / 4. Their columns are
    2 * (t mod 4) and the next. The other two lie eight rows below.

    Operands are both FP8, or both bf16. An operand of bf16 may be MN-major: contiguous along
    rows of A or columns of B.

    It runs asynchronously. The result may be used by `wgmma` of the same shape, and by
    others after `wgmma_wait` and `wgmma_results`.
  }];
  let example = [{%sums = fp8moe_kernel.wgmma %a, %b, %zeros if %accumulate
        : f8E4M3FN, f8E5M2, !llvm.struct<(f32, f32, f32, f32)>
    %more = fp8moe_kernel.wgmma %a, %b, %sums if %one mn_major_b
        : bf16, bf16, !llvm.struct<(f32, f32, f32, f32)>}];
  let arguments = (ins I64:$a, I64:$b, LLVM_AnyStruct:$accumulators,
      I32:$accumulate, TypeAttr:$a_type, TypeAttr:$b_type,
      UnitAttr:$mn_major_a, UnitAttr:$mn_major_b);
  let results = (outs LLVM_AnyStruct:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $accumulators `if` $accumulate (`mn_major_a` $mn_major_a^)?
    (`mn_major_b` $mn_major_b^)? attr-dict `:` $a_type `,` $b_type `,` type($accumulators)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Columns of B: a thread has N / 2 accumulators.
    int64_t getColumns();
  }];
}

def Kernel_WgmmaCommitOp : Kernel_Op<"wgmma_commit"> {
  let summary = "end a group of wgmma";
  let semantics = [{
    Executed by a converged warpgroup. Its `wgmma` since the last group are a group.
  }];
  let example = "fp8moe_kernel.wgmma_commit";
}

def Kernel_WgmmaWaitOp : Kernel_Op<"wgmma_wait"> {
  let summary = "wait for groups of wgmma";
  let semantics = [{
    Executed by a converged warpgroup. Waits until at most `pending` groups, the last ones,
    are under way. Operands of the others have been read, and their results exist.
  }];
  let example = "fp8moe_kernel.wgmma_wait 1";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Kernel_WgmmaResultsOp : Kernel_Op<"wgmma_results", [
    AllTypesMatch<["accumulators", "result"]>]> {
  let summary = "accumulators after a wait";
  let semantics = [{
    The accumulators themselves, which exist since the `wgmma_wait` before. No compiler uses
    the result earlier. It costs no instruction.
  }];
  let example = "%0 = fp8moe_kernel.wgmma_results %sums : !llvm.struct<(f32, f32, f32, f32)>";
  let arguments = (ins LLVM_AnyStruct:$accumulators);
  let results = (outs LLVM_AnyStruct:$result);
  let assemblyFormat = "$accumulators attr-dict `:` type($accumulators)";
}

//===----------------------------------------------------------------------===//
// MFMA, of AMD only
//===----------------------------------------------------------------------===//

def Kernel_MfmaOp : Kernel_Op<"mfma", [
    AllTypesMatch<["a", "b"]>, AllTypesMatch<["accumulators", "result"]>]> {
  let summary = "multiply matrices in registers of a wave";
  let semantics = [{
    Executed by a converged wave: 64 lanes. Multiplies E rows of A by E columns of B, and adds
    the accumulators, in `f32`. Lane l has elements of row l mod E of A and of column l mod E
    of B. It has E * E / 64 accumulators of that column. Number i of them lies in row
    4 * (l / E) + (256 / E) * (i / 4) + i mod 4.

    | E | elements | contraction | of a lane | the lane's first one |
    |---|---|---|---|---|
    | 32 | FP8 | 16 | 8 in an `i64` | 8 * (l / 32) |
    | 32 | bf16 | 8 | 4 in a `vector<4xi16>` | 4 * (l / 32) |
    | 16 | bf16 | 32 | 8 in a `vector<8xbf16>` | 8 * (l / 16) |
    | 16 | FP8 | 128 | 32 in a `vector<8xi32>` | 16 * (l / 16), and 64 later for the second half |

    With `scales`, of FP8 and E = 16 only, products are multiplied by powers of two. The
    lowest byte of the first scale is the e8m0 scale of a block of 32 elements of the lane's
    row of A: block number l / 16. The second one is that of B.
  }];
  let example = [{%0 = fp8moe_kernel.mfma %a, %b, %sums : f8E4M3FNUZ, f8E5M2FNUZ, i64, vector<16xf32>
    %1 = fp8moe_kernel.mfma %c, %d, %0 scales %e, %f
        : f8E4M3FN, f8E4M3FN, vector<8xi32>, vector<4xf32>}];
  let arguments = (ins AnyType:$a, AnyType:$b,
      FixedVectorOfRankAndType<[1], [F32]>:$accumulators, Variadic<I32>:$scales,
      TypeAttr:$a_type, TypeAttr:$b_type);
  let results = (outs FixedVectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $accumulators (`scales` $scales^)? attr-dict
    `:` $a_type `,` $b_type `,` type($a) `,` type($accumulators)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Rows of A and columns of B.
    int64_t getEdge();
  }];
}

#endif // FP8MOE_DIALECT_KERNEL_IR_KERNELMATRIX_TD
