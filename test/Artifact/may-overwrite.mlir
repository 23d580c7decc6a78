// RUN: rm -rf %t && fp8moe-opt %s --test-fp8moe-write-artifact="chip=cpu dir=%t" -o /dev/null
// RUN: FileCheck %s --input-file=%t/manifest.json

// "may_overwrite" raises min_runtime to 0.2.0, because older runtimes do not know the key.
// CHECK: "min_runtime": "0.2.0"
// CHECK: "role": "input", "name": "so_far"
// CHECK: "role": "output", "name": "sum", "dtype": "F32", "shape": [8], "strides": [1], "align": 4, "may_overwrite": 0}
llvm.func @add(%c: !llvm.ptr, %y: !llvm.ptr) {
  llvm.return
}
fp8moe_plan.program @sum {
  %c = fp8moe_plan.input "so_far" align 4 : memref<8xf32>
  %y = fp8moe_plan.output "sum" may_overwrite(%c : memref<8xf32>) align 4 : memref<8xf32>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @add grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%c, %y)
      : memref<8xf32>, memref<8xf32>
}
