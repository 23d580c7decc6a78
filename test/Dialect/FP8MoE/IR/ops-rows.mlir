// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --mlir-print-op-generic | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

#pitched = #fp8moe.strided<[0, 1], strides = [96, 1]>

// CHECK-LABEL: func.func @gather_rows(
func.func @gather_rows(%x: tensor<?x64xbf16>, %y: tensor<10x64xf32, #pitched>, %rows: tensor<?xi32>) {
  // CHECK: fp8moe.gather_rows %{{.*}} rows(%{{.*}} : tensor<?xi32>) : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %0 = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x64xbf16> -> tensor<?x64xbf16>
  // CHECK: fp8moe.gather_rows %{{.*}} rows(%{{.*}} : tensor<?xi32>) : tensor<10x64xf32, #{{.*}}> -> tensor<?x64xf32>
  %1 = fp8moe.gather_rows %y rows(%rows : tensor<?xi32>) : tensor<10x64xf32, #pitched> -> tensor<?x64xf32>
  return
}

// CHECK-LABEL: func.func @swiglu(
func.func @swiglu(%h: tensor<?x128xbf16>, %w: tensor<?xf32>, %d: tensor<?x64xbf16>) {
  // CHECK: fp8moe.swiglu %{{.*}} : tensor<?x128xbf16> -> tensor<?x64xbf16>
  %0 = fp8moe.swiglu %h : tensor<?x128xbf16> -> tensor<?x64xbf16>
  // CHECK: fp8moe.swiglu %{{.*}} times(%{{.*}} : tensor<?xf32>) : tensor<?x128xbf16> -> tensor<?x64xbf16>
  %weighted = fp8moe.swiglu %h times(%w : tensor<?xf32>) : tensor<?x128xbf16> -> tensor<?x64xbf16>
  // CHECK: fp8moe.swiglu_gradient %{{.*}}, %{{.*}} : tensor<?x64xbf16>, tensor<?x128xbf16> -> tensor<?x128xbf16>
  %1 = fp8moe.swiglu_gradient %d, %h : tensor<?x64xbf16>, tensor<?x128xbf16> -> tensor<?x128xbf16>
  return
}
