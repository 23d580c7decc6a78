// RUN: fp8moe-opt %s -convert-scf-to-cf -convert-cf-to-llvm -fp8moe-attach-loop-annotations | FileCheck %s
// RUN: fp8moe-opt %s -convert-scf-to-cf -convert-cf-to-llvm -fp8moe-attach-loop-annotations -convert-arith-to-llvm \
// RUN:     -convert-func-to-llvm | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=LLVM

// A loop annotation on scf.for moves to the branch, because LLVM reads it only there.

// CHECK: #[[ROLLED:.*]] = #llvm.loop_annotation<unroll = #{{.*}}>
// CHECK-LABEL: func.func @rolled(
// CHECK-NOT: llvm.loop_annotation =
// CHECK: llvm.br {{.*}} {loop_annotation = #[[ROLLED]]}
// CHECK-NOT: llvm.loop_annotation =

// LLVM: br label {{.*}}, !llvm.loop ![[LOOP:[0-9]+]]
// LLVM: ![[LOOP]] = distinct !{![[LOOP]], ![[UNROLL:[0-9]+]]}
// LLVM: ![[UNROLL]] = !{!"llvm.loop.unroll.disable"}
func.func @rolled(%low: i64, %high: i64, %p: !llvm.ptr) {
  %step = arith.constant 1 : i64
  scf.for %i = %low to %high step %step : i64 {
    llvm.store %i, %p : i64, !llvm.ptr
  } {llvm.loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}
  return
}
