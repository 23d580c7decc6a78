// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx950})))" | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @part
  // CHECK-SAME: (%[[SHARED:.*]]: !llvm.ptr<3>)
  // CHECK-NEXT: gpu.return %[[SHARED]]
  gpu.func @part(%shared: !llvm.ptr<3>) -> !llvm.ptr<3> {
    %0 = fp8moe_kernel.shared_part memory "result" at %shared : !llvm.ptr<3>
    gpu.return %0 : !llvm.ptr<3>
  }

  // CHECK-LABEL: gpu.func @large
  // CHECK-SAME: (%[[A:.*]]: i64, %[[B:.*]]: i64, %[[C:.*]]: vector<4xi16>, %[[SUMS:.*]]: vector<16xf32>)
  gpu.func @large(%a: i64, %b: i64, %c: vector<4xi16>, %sums: vector<16xf32>) -> vector<16xf32> {
    // CHECK: %[[FIRST:.*]] = rocdl.mfma.f32.32x32x16.fp8.bf8 %[[A]], %[[B]], %[[SUMS]], %c0_i32, %c0_i32, %c0_i32
    %0 = fp8moe_kernel.mfma %a, %b, %sums : f8E4M3FN, f8E5M2, i64, vector<16xf32>
    // CHECK: rocdl.mfma.f32.32x32x8bf16.1k %[[C]], %[[C]], %[[FIRST]]
    %1 = fp8moe_kernel.mfma %c, %c, %0 : bf16, bf16, vector<4xi16>, vector<16xf32>
    gpu.return %1 : vector<16xf32>
  }

  // The f8f6f4 instruction takes the format of each operand as a number. Without scales, both scale
  // operands are zero.
  // CHECK-LABEL: gpu.func @small
  // CHECK-SAME: (%[[A:.*]]: vector<8xi32>, %[[B:.*]]: vector<8xbf16>, %[[SUMS:.*]]: vector<4xf32>, %[[S:.*]]: i32, %[[T:.*]]: i32)
  gpu.func @small(%a: vector<8xi32>, %b: vector<8xbf16>, %sums: vector<4xf32>, %s: i32, %t: i32) -> vector<4xf32> {
    // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
    // CHECK: %[[FIRST:.*]] = rocdl.mfma.scale.f32.16x16x128.f8f6f4 %[[A]], %[[A]], %[[SUMS]], %{{.*}}, %[[ONE]], %[[ZERO:.*]], %[[ZERO]], %[[ZERO]], %[[ZERO]]
    %0 = fp8moe_kernel.mfma %a, %a, %sums : f8E4M3FN, f8E5M2, vector<8xi32>, vector<4xf32>
    // CHECK: %[[SECOND:.*]] = rocdl.mfma.scale.f32.16x16x128.f8f6f4 %[[A]], %[[A]], %[[FIRST]], {{.*}}, %[[S]], %{{.*}}, %[[T]]
    %1 = fp8moe_kernel.mfma %a, %a, %0 scales %s, %t : f8E4M3FN, f8E4M3FN, vector<8xi32>, vector<4xf32>
    // CHECK: rocdl.mfma.f32.16x16x32.bf16 %[[B]], %[[B]], %[[SECOND]]
    %2 = fp8moe_kernel.mfma %b, %b, %1 : bf16, bf16, vector<8xbf16>, vector<4xf32>
    gpu.return %2 : vector<4xf32>
  }
}
