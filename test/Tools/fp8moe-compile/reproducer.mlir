// A failing pass leaves a reproducer that fp8moe-opt can run.

// RUN: not fp8moe-compile %s --target=gfx942 --emit=tensor --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=FILE < %t.mlir
// RUN: not fp8moe-opt --run-reproducer %t.mlir 2>&1 | FileCheck %s

// CHECK: error: {{.*}}f8E4M3FN
// FILE: mlir_reproducer
// FILE: fp8moe-resolve-fp8-types
func.func @f(%x: tensor<?x64xf8E4M3FN>) -> tensor<?x64xf8E4M3FN> {
  return %x : tensor<?x64xf8E4M3FN>
}
