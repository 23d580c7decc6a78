// RUN: not fp8moe-compile %s --target=gfx942 --emit=tensor 2>&1 | FileCheck %s
// RUN: not fp8moe-compile %s --target=sm_90a,gfx950 -o %t 2>&1 | FileCheck %s --check-prefix=SECOND
// RUN: fp8moe-compile %s --emit=tensor | FileCheck %s --check-prefix=OWN

// CHECK: target-conflict.mlir:[[@LINE+3]]:1: error: the module is written for target 'sm_90a', but is to be compiled for 'gfx942'; remove its 'fp8moe.target' attribute or ask for that target
// SECOND: error: the module is written for target 'sm_90a', but is to be compiled for 'gfx950'
// OWN: module attributes {fp8moe.target = #fp8moe.target<"sm_90a">}
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
}
