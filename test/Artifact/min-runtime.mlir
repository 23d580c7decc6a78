// RUN: rm -rf %t && fp8moe-opt %s --test-fp8moe-write-artifact="chip=cpu dir=%t" -o /dev/null
// RUN: FileCheck %s --input-file=%t/manifest.json

// min_runtime is the highest version that any program of the artifact needs. Here only one of two
// programs needs 0.2.0.
// CHECK: "min_runtime": "0.2.0"
// CHECK: "name": "old",
// CHECK: "values": [
// CHECK-NEXT: {"op": "device_attr", "args": ["multiprocessors"]}
// CHECK-NEXT: ],
// CHECK: "name": "new",
// CHECK: "values": [
// CHECK-NEXT: {"op": "device_attr", "args": ["l2_bytes"]},
// CHECK-NEXT: {"op": "device_attr", "args": ["memory_bandwidth"]}
// CHECK-NEXT: ],
// CHECK: "args": [{"value": 0}, {"value": 1}]
llvm.func @one(%n: i64) {
  llvm.return
}
llvm.func @two(%l2: i64, %bandwidth: i64) {
  llvm.return
}
fp8moe_plan.program @old {
  %c1 = arith.constant 1 : index
  %n = fp8moe_plan.device_attr multiprocessors : index
  fp8moe_plan.launch @one grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%n) : index
}
fp8moe_plan.program @new {
  %c1 = arith.constant 1 : index
  %l2 = fp8moe_plan.device_attr l2_bytes : index
  %bandwidth = fp8moe_plan.device_attr memory_bandwidth : index
  fp8moe_plan.launch @two grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%l2, %bandwidth)
      : index, index
}
