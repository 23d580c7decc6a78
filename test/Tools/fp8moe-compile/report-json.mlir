// --report=json prints one JSON value for all targets on standard output. docs/users/python.md
// lists its keys.

// RUN: fp8moe-compile %s --target=cpu --target=cpu-fnuz --report=json --tokens=1024 -o %t 2> %t.remarks > %t.json
// RUN: %python -m json.tool --sort-keys %t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: fp8moe-compile %s --target=cpu --report=text -o %t 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not fp8moe-compile %s --target=cpu --report=yaml -o %t 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK:      "as_written": [
// CHECK:          "bytes": "16384 B",
// CHECK-NEXT:     "bytes_for_tokens": 16384,
// CHECK-NEXT:     "is_copy": true,
// CHECK-NEXT:     "line": [[# @LINE + 16]],
// CHECK-NEXT:     "op": "fp8moe.relayout"
// CHECK:        "chip": "cpu",
// CHECK:        "peaks": {},
// CHECK:        "remarks": [
// CHECK:            "done": true,
// CHECK-NEXT:       "line": [[# @LINE + 10]],
// CHECK-NEXT:       "name": "copy-removed",
// CHECK-NEXT:       "text": "copy removed: dynamic_quantize takes argument #0 as it is, row-major"
// CHECK:        "chip": "cpu-fnuz",
// CHECK:            "name": "copy-removed",
// CHECK:      "tokens": 1024
// REMARK: report-json.mlir:[[# @LINE + 4]]:8: remark: {{.*}}copy removed
// TEXT: program weights
// UNKNOWN: for the --report option: unknown value 'yaml'; expects one of text, json
func.func @weights(%x: tensor<64x64xbf16>) -> (tensor<64x64x!fp8moe.e4m3>, tensor<64xf32>) {
  %c = fp8moe.relayout %x : tensor<64x64xbf16> -> tensor<64x64xbf16, #fp8moe.strided<[1, 0]>>
  %q, %s = fp8moe.dynamic_quantize %c along [0] rounding pow2
      : tensor<64x64xbf16, #fp8moe.strided<[1, 0]>>
      -> tensor<64x64x!fp8moe.e4m3>, tensor<64xf32>
  return %q, %s : tensor<64x64x!fp8moe.e4m3>, tensor<64xf32>
}
