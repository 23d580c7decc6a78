// RUN: fp8moe-opt %s --fp8moe-sweep-tiles --verify-diagnostics

// expected-error@+1 {{has no tiles to sweep: target cpu is no GPU}}
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
}
