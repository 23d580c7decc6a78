// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=cpu kind=llvm" -o /dev/null | FileCheck %s
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=cpu kind=so output=%t.so" -o /dev/null
// RUN: llvm-nm --dynamic --defined-only %t.so | FileCheck %s --check-prefix=EXPORTED
// RUN: llvm-nm --dynamic --undefined-only %t.so | FileCheck %s --check-prefix=NEEDED

// The shared library exports only functions that a program launches, under their own names. Helpers
// stay hidden, and malloc is the only undefined symbol.
// EXPORTED-NOT: helper
// EXPORTED: T fill
// EXPORTED-NOT: {{.}}
// NEEDED: U malloc
// NEEDED-NOT: {{.}}

// CHECK: target triple = "x86_64-unknown-linux-gnu"
// CHECK: define void @fill(ptr {{.*}}%[[PARAMS:.*]])
// CHECK: load ptr, ptr %[[PARAMS]]
// CHECK: getelementptr {{.*}} %[[PARAMS]], i64 8
// CHECK-NOT: define
llvm.func @malloc(i64) -> !llvm.ptr

llvm.func @helper(%n: i64) -> !llvm.ptr attributes {no_inline} {
  %p = llvm.call @malloc(%n) : (i64) -> !llvm.ptr
  llvm.return %p : !llvm.ptr
}

llvm.func @fill(%x: !llvm.ptr, %n: i64) {
  %p = llvm.call @helper(%n) : (i64) -> !llvm.ptr
  llvm.store %p, %x : !llvm.ptr, !llvm.ptr
  llvm.return
}

llvm.func @not_launched() {
  llvm.return
}

fp8moe_plan.program @main {
  %x = fp8moe_plan.input "x" align 8 : memref<?xi64>
  %n = fp8moe_plan.dim %x, 0 : memref<?xi64>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @fill grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%x, %n) : memref<?xi64>, index
}
