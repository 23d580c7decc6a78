// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// The host decides which range holds. Ranges of bytes are compared as lengths, as products could
// overflow. Percentages of L2 are computed from the device's cache size.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @percent(%x: tensor<?x1024xbf16>) -> (tensor<?x1024xf8E4M3FN>, tensor<1024xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 512> for group_bytes above 10 up_to 50 percent of l2,
               #fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x1024xbf16> -> tensor<?x1024xf8E4M3FN>, tensor<1024xf32>
    return %q, %s : tensor<?x1024xf8E4M3FN>, tensor<1024xf32>
  }

  // With dynamic columns, the range of bytes is divided at run time.
  func.func @bytes(%x: tensor<?x?xf32>, %ends: tensor<8xi32>) -> (tensor<?x?xf8E4M3FN>, tensor<8x?xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 512> for group_bytes up_to 1048576,
               #fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x?xf32> -> tensor<?x?xf8E4M3FN>, tensor<8x?xf32>
    return %q, %s : tensor<?x?xf8E4M3FN>, tensor<8x?xf32>
  }

  // If several ranges hold, the first one is launched.
  func.func @both_hold(%x: tensor<?x1024xbf16>) -> (tensor<?x1024xf8E4M3FN>, tensor<1024xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 32, threads = 128> for mean_length up_to 100,
               #fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x1024xbf16> -> tensor<?x1024xf8E4M3FN>, tensor<1024xf32>
    return %q, %s : tensor<?x1024xf8E4M3FN>, tensor<1024xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @percent
// CHECK-DAG:     %[[ROWS:.*]] = fp8moe_plan.dim %{{.*}}, 0
// CHECK-DAG:     %[[L2:.*]] = fp8moe_plan.device_attr l2_bytes : index
// CHECK-DAG:     %[[TIMES50:.*]] = arith.muli %[[L2]], %c50
// CHECK-DAG:     %[[HALF:.*]] = arith.divsi %[[TIMES50]], %c100
// CHECK-DAG:     %[[MOST:.*]] = arith.divsi %[[HALF]], %c2048
// CHECK-DAG:     %[[IS_AT_MOST:.*]] = arith.cmpi sle, %[[ROWS]], %[[MOST]]
// CHECK-DAG:     %[[TIMES10:.*]] = arith.muli %[[L2]], %c10
// CHECK-DAG:     %[[TENTH:.*]] = arith.divsi %[[TIMES10]], %c100
// CHECK-DAG:     %[[LEAST:.*]] = arith.divsi %[[TENTH]], %c2048
// CHECK-DAG:     %[[IS_ABOVE:.*]] = arith.cmpi sgt, %[[ROWS]], %[[LEAST]]
// CHECK-DAG:     %[[HOLDS:.*]] = arith.andi %[[IS_AT_MOST]], %[[IS_ABOVE]]
// CHECK:         fp8moe_plan.launch {{.*}} block(512, 1, 1) {{.*}} when(%[[HOLDS]])
// The second kernel runs outside of the first one's range, although the first one could take every
// size.
// CHECK:         %[[REST:.*]] = arith.xori %[[HOLDS]], %true
// CHECK:         fp8moe_plan.launch {{.*}} block(256, 1, 1) {{.*}} when(%[[REST]])

// CHECK-LABEL: fp8moe_plan.program @bytes
// CHECK-DAG:     %[[ROWS:.*]] = fp8moe_plan.dim %{{.*}}, 0
// CHECK-DAG:     %[[COLUMNS:.*]] = fp8moe_plan.dim %{{.*}}, 1
// CHECK-NOT:     device_attr
// CHECK-DAG:     %[[MEAN:.*]] = arith.ceildivsi %[[ROWS]], %c8
// CHECK-DAG:     %[[ACROSS:.*]] = arith.maxsi %[[COLUMNS]], %c1
// CHECK-DAG:     %[[MOST:.*]] = arith.divsi %c262144, %[[ACROSS]]
// CHECK-DAG:     %[[HOLDS:.*]] = arith.cmpi sle, %[[MEAN]], %[[MOST]]
// CHECK:         fp8moe_plan.launch {{.*}} block(512, 1, 1) {{.*}} when(%[[HOLDS]])

// CHECK-LABEL: fp8moe_plan.program @both_hold
// CHECK:         %[[HOLDS:.*]] = arith.cmpi sle, %{{.*}}, %c100
// CHECK:         fp8moe_plan.launch {{.*}} block(128, 1, 1) {{.*}} when(%[[HOLDS]])
// CHECK:         %[[REST:.*]] = arith.cmpi sgt, %{{.*}}, %c100
// CHECK:         fp8moe_plan.launch {{.*}} block(256, 1, 1) {{.*}} when(%[[REST]])
