// fp8moe-compile reads standard input, bytecode and split files, and accepts the options of MLIR's
// tools.

// RUN: fp8moe-compile - --target=gfx942 --emit=tensor < %s | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-compile --target=gfx942 --emit=tensor -o - | FileCheck %s
// RUN: cat %s %S/Inputs/marker.txt %s | fp8moe-compile - --target=gfx942 --emit=tensor --split-input-file | FileCheck %s --check-prefixes=CHECK,SPLIT
// RUN: fp8moe-compile %s --target=gfx942 --emit=tensor --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER

// CHECK: module attributes {fp8moe.target = #fp8moe.target<"gfx942">}
// CHECK: func.func @f(%{{.*}}: tensor<?x64xf8E4M3FNUZ>)
// SPLIT: // -----
// SPLIT: func.func @f(%{{.*}}: tensor<?x64xf8E4M3FNUZ>)

// AFTER: IR Dump After ResolveFp8Types
module {
  func.func @f(%x: tensor<?x64x!fp8moe.e4m3>) -> tensor<?x64x!fp8moe.e4m3> {
    return %x : tensor<?x64x!fp8moe.e4m3>
  }
}
