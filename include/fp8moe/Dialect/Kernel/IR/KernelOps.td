//===- KernelOps.td - Operations of kernels ----------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_IR_KERNELOPS_TD
#define FP8MOE_DIALECT_KERNEL_IR_KERNELOPS_TD

include "fp8moe/Dialect/Kernel/IR/KernelCopies.td"
include "fp8moe/Dialect/Kernel/IR/KernelDialect.td"
include "fp8moe/Dialect/Kernel/IR/KernelMatrix.td"
include "fp8moe/Dialect/Kernel/IR/KernelSync.td"

//===----------------------------------------------------------------------===//
// Words of FP8
//===----------------------------------------------------------------------===//

def Kernel_FP8Products : Kernel_Enum<"FP8Products",
    "a bound of products that become FP8", [
    I32EnumAttrCase<"Any", 0, "any">,
    I32EnumAttrCase<"OfOwnScale", 1, "own_scale">,
    I32EnumAttrCase<"OfOwnPowerOfTwo", 2, "own_power_of_two">]>;

def Kernel_PackFP8Op : Kernel_Op<"pack_fp8", [
    Pure, AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "round numbers to FP8, four in a word";
  let semantics = [{
    Rounds each `f32` to nearest even. Four consecutive values make one word, the first
    one in the lowest byte. A magnitude above the largest finite number of the type,
    an infinity too, becomes that number with its sign. A NaN stays a NaN.
    Subnormals are kept.

    With `times`, a number is the product of a value and its scale, rounded to `f32`
    first. `products` states what is known of the products and saves comparisons. A
    product that breaks the statement gives any byte.

    * `any`: nothing is known.
    * `own_scale`: each scale is the largest number of the type divided by the largest
      magnitude of values that the value is one of, rounded. No product exceeds that number
      by more than a rounding error. A product is only a NaN where its scale is a NaN or zero.
    * `own_power_of_two`: as `own_scale`, with scales rounded down to powers of two. No
      product exceeds the largest number.
  }];
  let example = [{%word = fp8moe_kernel.pack_fp8 %a, %b, %c, %d : f8E4M3FN
    %scaled = fp8moe_kernel.pack_fp8 %a, %b, %c, %d times %s, %s, %t, %t
        products own_power_of_two : f8E4M3FN}];
  let arguments = (ins Variadic<F32>:$values, Variadic<F32>:$scales,
      DefaultValuedAttr<Kernel_FP8Products,
          "::mlir::fp8moe::kernel::FP8Products::Any">:$products,
      TypeAttr:$fp8_type);
  let results = (outs Variadic<I32>:$words);
  let assemblyFormat = [{
    $values (`times` $scales^)? (`products` $products^)? attr-dict `:` $fp8_type
  }];
  let builders = [
    OpBuilder<(ins "::mlir::ValueRange":$values, "::mlir::Type":$fp8Type), [{
      build($_builder, $_state, values, /*scales=*/{}, FP8Products::Any, fp8Type);
    }]>];
  let hasVerifier = 1;
}

def Kernel_PackFP8PairOp : Kernel_Op<"pack_fp8_pair", [Pure]> {
  let summary = "round two numbers to FP8";
  let semantics = [{
    As `pack_fp8`, but two numbers, the first one in the lower byte.
  }];
  let example = "%pair = fp8moe_kernel.pack_fp8_pair %a, %b : f8E4M3FN";
  let arguments = (ins F32:$low, F32:$high, TypeAttr:$fp8_type);
  let results = (outs I16:$pair);
  let assemblyFormat = "$low `,` $high attr-dict `:` $fp8_type";
  let hasVerifier = 1;
}

def Kernel_UnpackFP8Op : Kernel_Op<"unpack_fp8", [Pure]> {
  let summary = "the four numbers of a word of FP8";
  let semantics = [{
    Converts each byte of the word to the `f32` with its value, the lowest byte first.
    A NaN may become any NaN.
  }];
  let example = "%values:4 = fp8moe_kernel.unpack_fp8 %word : f8E4M3FN";
  let arguments = (ins I32:$word, TypeAttr:$fp8_type);
  let results = (outs F32:$first, F32:$second, F32:$third, F32:$fourth);
  let assemblyFormat = "$word attr-dict `:` $fp8_type";
  let hasVerifier = 1;
}

def Kernel_PermuteBytesOp : Kernel_Op<"permute_bytes", [Pure]> {
  let summary = "a word of four bytes out of eight";
  let semantics = [{
    Byte i of the result is byte n of eight: n from 0 to 3 in `low`, from 4 to 7 in `high`.
    The number n is in bits 4 * i to 4 * i + 3 of `selector`. Numbers above 7, and bits
    above the lower half of the selector, give any result.
  }];
  let example = "%word = fp8moe_kernel.permute_bytes %low, %high, %selector";
  let arguments = (ins I32:$low, I32:$high, I32:$selector);
  let results = (outs I32:$word);
  let assemblyFormat = "$low `,` $high `,` $selector attr-dict";
}

//===----------------------------------------------------------------------===//
// Lanes of a converged subgroup
//===----------------------------------------------------------------------===//

def Kernel_UniformOp : Kernel_Op<"uniform", [Pure]> {
  let summary = "a word that all lanes have in common";
  let semantics = [{
    The value itself, which must be equal in all lanes of the converged subgroup; else
    the result is any of them. The vendor's compiler may then keep it once for all lanes.
  }];
  let example = "%subgroup = fp8moe_kernel.uniform %word";
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict";
}

def Kernel_BallotOp : Kernel_Op<"ballot"> {
  let summary = "the lanes where a condition holds";
  let semantics = [{
    Bit i of the result is the condition in lane i. The subgroup must be converged, and
    all lanes get the same integer. Its type has a bit for each lane: `i32` on NVIDIA,
    `i64` on AMD.
  }];
  let example = "%lanes = fp8moe_kernel.ballot %condition : i32";
  let arguments = (ins I1:$condition);
  let results = (outs AnyTypeOf<[I32, I64]>:$lanes);
  let assemblyFormat = "$condition attr-dict `:` type($lanes)";
}

def Kernel_VoteAnyOp : Kernel_Op<"vote_any"> {
  let summary = "whether a condition holds in any lane";
  let semantics = [{
    The subgroup must be converged, and all lanes get the same answer.
  }];
  let example = "%any = fp8moe_kernel.vote_any %condition";
  let arguments = (ins I1:$condition);
  let results = (outs I1:$result);
  let assemblyFormat = "$condition attr-dict";
}

def Kernel_ExchangeOp : Kernel_Op<"exchange", [
    AllTypesMatch<["value", "one", "other"]>]> {
  let summary = "a word of this lane and of its partner";
  let semantics = [{
    `value` of this lane and of lane `lane xor mask`, in an order in which the two lanes
    need not agree. The subgroup must be converged. A combination of both results that
    commutes is the same in both lanes. The mask is a power of two below the number of lanes.
  }];
  let example = "%one, %other = fp8moe_kernel.exchange %value, 16";
  let arguments = (ins I32:$value, I32Attr:$mask);
  let results = (outs I32:$one, I32:$other);
  let assemblyFormat = "$value `,` $mask attr-dict";
  let hasVerifier = 1;
}

def Kernel_SubgroupBarrierOp : Kernel_Op<"subgroup_barrier"> {
  let summary = "wait for the lanes of a subgroup";
  let semantics = [{
    Lanes go on when all lanes of the subgroup have arrived. Each lane then sees what the
    others wrote to memory before. All lanes must execute it.
  }];
  let example = "fp8moe_kernel.subgroup_barrier";
}

#endif // FP8MOE_DIALECT_KERNEL_IR_KERNELOPS_TD
