// Each target gets an artifact. The report lists what was done.

// RUN: rm -rf %t && fp8moe-compile %s --target=cpu --target=cpu-fnuz -o %t --report --tokens=1024 | FileCheck %s
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/cpu/manifest.json
// RUN: FileCheck %s --check-prefix=FNUZ < %t/cpu-fnuz/manifest.json
// RUN: test -s %t/cpu/kernels.so

// Compiling twice gives the same bytes.
// RUN: fp8moe-compile %s --target=cpu -o %t/again
// RUN: diff -r %t/cpu %t/again/cpu

// CHECK-LABEL: program quantize
// CHECK-NEXT:  as written {{ *}}bytes moved {{ *}}1024 tokens
// CHECK-NEXT:  fp8moe.dynamic_quantize line [[@LINE+20]] 196 B/token 0.2 MiB
// CHECK-NEXT:  total 196 B/token 0.2 MiB
// CHECK-LABEL: target cpu (
// CHECK-NEXT:  the reference; no times are predicted
// CHECK-NEXT:  quantize after the tensor passes
// CHECK:       kernel launches block
// CHECK-NEXT:  1 1x1x1
// CHECK:       {{.*}}cpu/kernels.so
// CHECK-NEXT:  {{.*}}cpu/manifest.json
// CHECK-NEXT:  compiled in
// CHECK-LABEL: target cpu-fnuz (

// MANIFEST-DAG: "chip": "cpu"
// MANIFEST-DAG: "F8_E4M3"
// MANIFEST-DAG: "name": "quantize"
// FNUZ-DAG: "chip": "cpu-fnuz"
// FNUZ-DAG: "F8_E4M3FNUZ"

func.func @quantize(%x: tensor<?x64xbf16> {fp8moe.name = "x"})
    -> (tensor<?x64x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "scales"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
