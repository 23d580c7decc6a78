// RUN: fp8moe-opt %s --split-input-file --fp8moe-attach-target="chip=sm_90a" --verify-diagnostics | FileCheck %s

// CHECK: module attributes {fp8moe.target = #fp8moe.target<"sm_90a">}
module {
}

// -----

// CHECK: module attributes {fp8moe.target = #fp8moe.target<"sm_90a">}
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
}

// -----

// expected-error@+1 {{the module is written for target 'gfx942', but is to be compiled for 'sm_90a'; remove its 'fp8moe.target' attribute or ask for that target}}
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
}
