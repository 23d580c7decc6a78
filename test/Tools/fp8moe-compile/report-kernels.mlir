// The report has registers, occupancy and, on AMD, the instructions of a matmul's main loop. It
// finds the loop also when a partial last stage adds a branch.

// RUN: fp8moe-compile %s --target=gfx942 -o %t --report | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>

// CHECK:      kernel launches block registers shared spills resident
// CHECK-NEXT:   matmul_0 0-1 512x1x1 {{[0-9]+}} 65536 0 1{{$}}
// CHECK-NEXT:     0 of the registers are AGPRs; {{[0-9]+}} SGPRs, and 0 more in lanes of registers
// CHECK-NEXT:     main loop: 32 of 8{{[0-9]}} instructions are MFMA (3{{[0-9]}}%); 6 vector, 2{{[0-9]}} scalar, 16 shared memory, 4 memory
// CHECK-NEXT:   matmul_1
// CHECK-NEXT:     0 of the registers are AGPRs
// CHECK-NEXT:     main loop: 32 of {{1[0-9]+}} instructions are MFMA ({{[0-9]+}}%); 1{{[0-9]}} vector, {{.*}} 16 shared memory, 4 memory

func.func @whole_stages(%x: tensor<?x2048xbf16>, %w: tensor<2048x4096xbf16, #columns>) -> tensor<?x4096xbf16> {
  %y = fp8moe.linear %x, %w tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x2048xbf16>, tensor<2048x4096xbf16, #columns> -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

func.func @any_contraction(%x: tensor<?x?xbf16>, %w: tensor<?x4096xbf16, #columns>) -> tensor<?x4096xbf16> {
  %y = fp8moe.linear %x, %w tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?xbf16>, tensor<?x4096xbf16, #columns> -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// Bounds of groups and pointers are scalars, so the kernel needs many SGPRs.
// CHECK: quantize_two_pass_outer_transposing
// CHECK-NEXT: 0 of the registers are AGPRs; {{[0-9]+}} SGPRs, and 0 more in lanes of registers

func.func @groups(%x: tensor<?x2048xbf16>, %offsets: tensor<8xi32>)
    -> (tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<8x2048xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<8xi32>) along [0] rounding pow2
      tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<8x2048xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<8x2048xf32>
}
