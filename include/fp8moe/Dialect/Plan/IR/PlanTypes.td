//===- PlanTypes.td - Types and enums of the host plan -----*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_PLAN_IR_PLANTYPES_TD
#define FP8MOE_DIALECT_PLAN_IR_PLANTYPES_TD

include "fp8moe/Dialect/Plan/IR/PlanDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Plan_TensorMapType : TypeDef<Plan_Dialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "what a kernel needs to copy boxes of a tensor";
  let description = [{
    The descriptor of 128 bytes that TMA of NVIDIA's
    GPUs reads (`CUtensorMap`). The runtime encodes it before a launch; the kernel
    receives it by value.
  }];
}

def Plan_DeviceAttribute : I32EnumAttr<
    "DeviceAttribute", "what a program asks about its device", [
      I32EnumAttrCase<"Multiprocessors", 0, "multiprocessors">,
      I32EnumAttrCase<"L2Bytes", 1, "l2_bytes">,
      I32EnumAttrCase<"MemoryBandwidth", 2, "memory_bandwidth">]> {
  let cppNamespace = "::mlir::fp8moe::plan";
  let genSpecializedAttr = 0;
}

def Plan_DeviceAttributeAttr
    : EnumAttr<Plan_Dialect, Plan_DeviceAttribute, "device_attribute">;

#endif // FP8MOE_DIALECT_PLAN_IR_PLANTYPES_TD
