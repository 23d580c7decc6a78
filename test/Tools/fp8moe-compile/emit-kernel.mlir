// --emit=kernel prints a comment before each kernel: its operation, launch, parameters and shared
// memory.

// RUN: fp8moe-compile %s --target=sm_90a --emit=kernel | FileCheck %s --match-full-lines --strict-whitespace

//      CHECK:    // %0 = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<8xi32>) {{.*}} tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 5, schedule = ping_pong>]{{.*}}
// CHECK-NEXT:    // launch: grid(multiprocessors, 1, 1) block(384, 1, 1) shared {{[0-9]+}} when sge(a.dim(0), 1)
// CHECK-NEXT:    // %a_map: tensor map of a, box of 128x128 f8E4M3FN, swizzle 128
// CHECK-NEXT:    // %b_map: tensor map of b, box of 128x128x1 f8E4M3FN, swizzle 128
// CHECK-NEXT:    // %result_map: tensor map of y, box of 64x16 bf16, swizzle 128
// CHECK-NEXT:    // %group_ends: offsets
// CHECK-NEXT:    // %scales_a: sa
// CHECK-NEXT:    // %scales_b: sb
// CHECK-NEXT:    // %result: y
// CHECK-NEXT:    // %a_dim_0: a.dim(0)
// CHECK-NEXT:    // shared 0 + 16384 * stage: stage "operands"
// CHECK-NEXT:    // shared 81920 + 16384 * stage: stage "operands"
// CHECK-NEXT:    // shared 163840: memory "result"
// CHECK-NEXT:    // shared {{[0-9]+}}: memory "scales"
// CHECK-NEXT:    // shared {{[0-9]+}} + 8 * stage: full "operands"
// CHECK-NEXT:    // shared {{[0-9]+}} + 8 * stage: empty "operands"
// CHECK-NEXT:    gpu.func @grouped_matmul_0(%a_map: !llvm.ptr {fp8moe_plan.tensor_map}, {{.*}}

// Unused loop values are removed. Repeated steps become a function with named parameters.

//      CHECK:{{ *}}%find_tile:4 = func.call @find_tile({{.*}}
//  CHECK-NOT:{{.*}}%padded_begin{{.*}}
//      CHECK:    func.func private @find_tile(%group: i32, %first_tile: i32, %begin: i32, %end: i32, {{.*}}
func.func @matmul(
      %a: tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<8x2048x1536x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>> {fp8moe.name = "b"},
      %offsets: tensor<8xi32> {fp8moe.name = "offsets"}, %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<8x1536xf32> {fp8moe.name = "sb"}) -> (tensor<?x1536xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<8xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<8x1536xf32>) direction quantize accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 5, schedule = ping_pong>]
      : tensor<?x2048x!fp8moe.e4m3>, tensor<8x2048x1536x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>>
      -> tensor<?x1536xbf16>
  return %y : tensor<?x1536xbf16>
}
