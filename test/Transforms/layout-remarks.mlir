// RUN: fp8moe-opt %s --fp8moe-optimize-layouts --remark-format=emitRemark \
// RUN:   --remarks-filter=fp8moe-layout -o /dev/null 2>&1 | FileCheck %s
// RUN: fp8moe-opt %s --fp8moe-optimize-layouts -o /dev/null 2>&1 | FileCheck %s --allow-empty --check-prefix=SILENT
// SILENT-NOT: {{.}}

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @removed(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
      -> tensor<?x2048xf8E4M3FN, #col> {
    // CHECK: [[@LINE+1]]:10: remark: [Passed] copy-removed {{.*}}"copy removed: jagged_dynamic_quantize takes argument #0 as it is, row-major"
    %c = fp8moe.relayout %x : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #col>
    %q, %s = fp8moe.jagged_dynamic_quantize %c groups(%ends : tensor<64xi32>) along [0]
        rounding pow2 : tensor<?x2048xbf16, #col>
        -> tensor<?x2048xf8E4M3FN>, tensor<64x2048xf32>
    // CHECK: [[@LINE+1]]:10: remark: [Passed] copy-removed {{.*}}"copy removed: jagged_dynamic_quantize writes column-major, which result #0 of the function takes"
    %r = fp8moe.relayout %q : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #col>
    return %r : tensor<?x2048xf8E4M3FN, #col>
  }

  func.func @kept(%x: tensor<?x2048xbf16>) -> tensor<?x2048xbf16, #col> {
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}"copy kept: result #0 of the function takes column-major, but argument #0 is row-major; it would go if argument #0 were column-major, or result #0 of the function took row-major"
    %c = fp8moe.relayout %x : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #col>
    return %c : tensor<?x2048xbf16, #col>
  }

  // The result is written in one layout and read in two.
  func.func @read_twice(%x: tensor<64x2048xbf16>)
      -> (tensor<64x2048xf8E4M3FN>, tensor<64x2048xf8E4M3FN, #col>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<64x2048xbf16> -> tensor<64x2048xf8E4M3FN>, tensor<64xf32>
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}"copy kept: result #1 of the function takes column-major, but dynamic_quantize writes row-major; dynamic_quantize is predicted to take {{[0-9.]+}} us to write column-major, but {{[0-9.]+}} us as it is, and the copy {{[0-9.]+}} us; it would go if result #{{[01]}} of the function, which reads what dynamic_quantize writes, took {{.*}} too"
    %r = fp8moe.relayout %q : tensor<64x2048xf8E4M3FN> -> tensor<64x2048xf8E4M3FN, #col>
    return %q, %r : tensor<64x2048xf8E4M3FN>, tensor<64x2048xf8E4M3FN, #col>
  }

  func.func @padded(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
      -> tensor<224x64xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>> {
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}"copy kept: result #0 of the function takes row-major with groups padded to 16, but argument #0 is row-major; it would go if argument #0 were padded already"
    %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16>
        -> tensor<224x64xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
    return %p : tensor<224x64xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  }

  func.func @other_groups(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>)
      -> tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>> {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
        : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}it would go if jagged_dynamic_quantize had the same groups"
    %p = fp8moe.relayout %q groups(%other : tensor<8xi32>) : tensor<100x64xf8E4M3FN>
        -> tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
    return %p : tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  }
  func.func @cannot_read(%x: tensor<?x64xbf16>, %w: tensor<8x64x32xbf16, #fp8moe.strided<[1, 2, 0]>>,
                         %ends: tensor<8xi32>) -> tensor<?x32xbf16> {
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}"copy kept: grouped_matmul takes order [0, 2, 1], but argument #1 is order [1, 2, 0]; grouped_matmul cannot read order [1, 2, 0] on sm_90a; it would go if argument #1 were order [0, 2, 1]"
    %c = fp8moe.relayout %w : tensor<8x64x32xbf16, #fp8moe.strided<[1, 2, 0]>>
        -> tensor<8x64x32xbf16, #fp8moe.strided<[0, 2, 1]>>
    %y = fp8moe.grouped_matmul %x, %c groups(%ends : tensor<8xi32>)
        : tensor<?x64xbf16>, tensor<8x64x32xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x32xbf16>
    return %y : tensor<?x32xbf16>
  }

  func.func @cannot_write(%g: tensor<32x?xbf16, #col>, %x: tensor<?x64xbf16>, %ends: tensor<8xi32>)
      -> tensor<8x32x64xf32, #fp8moe.strided<[1, 2, 0]>> {
    %y = fp8moe.grouped_matmul %g, %x groups(%ends : tensor<8xi32>)
        : tensor<32x?xbf16, #col>, tensor<?x64xbf16> -> tensor<8x32x64xf32>
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}"copy kept: result #0 of the function takes order [1, 2, 0], but grouped_matmul writes row-major; grouped_matmul cannot write order [1, 2, 0] on sm_90a"
    %c = fp8moe.relayout %y : tensor<8x32x64xf32> -> tensor<8x32x64xf32, #fp8moe.strided<[1, 2, 0]>>
    return %c : tensor<8x32x64xf32, #fp8moe.strided<[1, 2, 0]>>
  }
}
