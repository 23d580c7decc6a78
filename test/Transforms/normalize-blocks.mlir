// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-pad-groups))' | FileCheck %s

// Basic blocks are normalized so that passes can follow views and visit definitions before uses.

#column_major = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// Views in an unreachable block may form a cycle. The block is erased.
// CHECK-LABEL: func.func @cycle
// CHECK-NEXT: return
// CHECK-NEXT: }
func.func @cycle(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  return %x : tensor<?x64xbf16>
^bb1:
  %0 = fp8moe.transpose %1 [1, 0] : tensor<64x?xbf16> -> tensor<?x64xbf16, #column_major>
  %1 = fp8moe.transpose %0 [1, 0] : tensor<?x64xbf16, #column_major> -> tensor<64x?xbf16>
  %2 = fp8moe.relayout %0 : tensor<?x64xbf16, #column_major> -> tensor<?x64xbf16>
  %q, %s = fp8moe.dynamic_quantize %2 along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  return %2 : tensor<?x64xbf16>
}

// A region of an operation has an unreachable block with such a cycle.
// CHECK-LABEL: func.func @cycle_in_region
// CHECK-NOT:   relayout
// CHECK:       return
func.func @cycle_in_region(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %r = scf.execute_region -> tensor<?x64xbf16> {
    scf.yield %x : tensor<?x64xbf16>
  ^bb1:
    %0 = fp8moe.relayout %1 : tensor<?x64xbf16> -> tensor<?x64xbf16, #column_major>
    %1 = fp8moe.relayout %0 : tensor<?x64xbf16, #column_major> -> tensor<?x64xbf16>
    cf.br ^bb1
  }
  return %r : tensor<?x64xbf16>
}

// A block may be written before its dominator. Blocks are sorted, as passes visit them in order and
// erase operations before their users.
// CHECK-LABEL: func.func @order
// CHECK:         cf.cond_br %{{.*}}, ^[[PRODUCER:.*]], ^[[END:.*]]
// CHECK:       ^[[PRODUCER]]:
// CHECK:         cf.br ^[[READER:.*]]
// CHECK:       ^[[READER]]:
// CHECK:         return
func.func @order(%x: tensor<100x64xbf16>, %c: i1) -> tensor<100x64xbf16> {
  cf.cond_br %c, ^producer, ^end
^reader:
  %a = fp8moe.relayout %p : tensor<100x64xbf16, #column_major> -> tensor<100x64xbf16>
  return %a : tensor<100x64xbf16>
^producer:
  %p = fp8moe.relayout %x : tensor<100x64xbf16> -> tensor<100x64xbf16, #column_major>
  cf.br ^reader
^end:
  return %x : tensor<100x64xbf16>
}
}
