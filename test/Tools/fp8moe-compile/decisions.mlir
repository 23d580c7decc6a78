// The report and the manifest have the decision for each kernel, in program order.

// RUN: rm -rf %t && fp8moe-compile %s --target=gfx942 --target=cpu -o %t --report | FileCheck %s
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/gfx942/manifest.json
// RUN: FileCheck %s --check-prefix=CPU < %t/cpu/manifest.json

// Compiling twice gives the same bytes.
// RUN: fp8moe-compile %s --target=gfx942 -o %t/again
// RUN: diff -r %t/gfx942 %t/again/gfx942

// The runtime reads the manifest with its decisions.
// RUN: fp8moe-run %t/cpu --random=1 --tokens=64 --outputs=%t/out.safetensors

// CHECK-LABEL: target gfx942
// CHECK:       copies: 2 as written, 1 left
// CHECK-NEXT:  kernel, layouts and tiles (16384 tokens and 8 groups where not known) {{ *}}predicted {{ *}}least
// CHECK-NEXT:  fp8moe.jagged_dynamic_quantize line [[@LINE+46]] {{[0-9.]+}} us {{[0-9.]+}} us
// CHECK-NEXT:  row-major, row-major -> column-major, row-major
// CHECK-NEXT:  tile two_pass<columns = 64, threads = 256>
// CHECK-NEXT:  outer_transposing: bound by {{latency|bandwidth}}, the second read from L2, 2048 blocks in 3 waves; next best two_pass<columns = 128, threads = 512> at {{[0-9.]+}} us
// CHECK-NEXT:  fp8moe.relayout line {{[0-9]+}} {{[0-9.]+}} us
// CHECK-NEXT:  row-major -> column-major
// CHECK-NEXT:  no choice: one schedule for these layouts
// CHECK-LABEL: target cpu
// CHECK:       fp8moe.jagged_dynamic_quantize line {{[0-9]+}} {{ *}}- {{ *}}-{{$}}
// CHECK-NEXT:  row-major, row-major -> column-major, row-major
// CHECK-NEXT:  reference path: results are exact, time is not tuned

// MANIFEST:      "decisions": [
// MANIFEST-NEXT:   {
// MANIFEST-NEXT:     "least_ns": {{[0-9]+}},
// MANIFEST-NEXT:     "line": [[@LINE+31]],
// MANIFEST-NEXT:     "op": "fp8moe.jagged_dynamic_quantize",
// MANIFEST-NEXT:     "predicted_ns": {{[0-9]+}},
// MANIFEST-NEXT:     "program": "wgrad",
// MANIFEST-NEXT:     "reads": [
// MANIFEST-NEXT:       "row-major",
// MANIFEST-NEXT:       "row-major"
// MANIFEST-NEXT:     ],
// MANIFEST-NEXT:     "reason": "outer_transposing: {{.*}}",
// MANIFEST-NEXT:     "tile": {
// MANIFEST-NEXT:       "columns": 64,
// MANIFEST-NEXT:       "kind": "two_pass",
// MANIFEST-NEXT:       "threads": 256
// MANIFEST-NEXT:     },
// MANIFEST-NEXT:     "writes": [
// MANIFEST-NEXT:       "column-major",
// MANIFEST-NEXT:       "row-major"
// MANIFEST-NEXT:     ]
// MANIFEST-NEXT:   },
// MANIFEST:          "op": "fp8moe.relayout"

// CPU-NOT: predicted_ns
// CPU:     "reason": "reference path: results are exact, time is not tuned"
// CPU-NOT: "tile"

#col = #fp8moe.strided<[1, 0]>
func.func @wgrad(%x: tensor<?x2048xbf16> {fp8moe.name = "x"}, %y: tensor<?x2048xbf16> {fp8moe.name = "y"}, %ends: tensor<64xi32> {fp8moe.name = "ends"})
    -> (tensor<?x2048x!fp8moe.e4m3, #col> {fp8moe.name = "q"}, tensor<64x2048xf32> {fp8moe.name = "s"},
        tensor<?x2048xbf16, #col> {fp8moe.name = "c"}) {
  %t = fp8moe.relayout %x : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #col>
  %c = fp8moe.relayout %y : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #col>
  %q, %s = fp8moe.jagged_dynamic_quantize %t groups(%ends : tensor<64xi32>) along [0]
      rounding pow2 : tensor<?x2048xbf16, #col>
      -> tensor<?x2048x!fp8moe.e4m3, #col>, tensor<64x2048xf32>
  return %q, %s, %c
      : tensor<?x2048x!fp8moe.e4m3, #col>, tensor<64x2048xf32>, tensor<?x2048xbf16, #col>
}
