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
    // CHECK: [[@LINE+1]]:10: remark: [Missed] copy-kept {{.*}}"copy kept: result #0 of the function takes column-major, but argument #0 is row-major"
    %c = fp8moe.relayout %x : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #col>
    return %c : tensor<?x2048xbf16, #col>
  }
}
