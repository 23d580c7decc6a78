// Each pipeline accepts the chips of its kind. It leaves programs and the LLVM dialect.

// RUN: fp8moe-opt %s --fp8moe-to-cpu | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: fp8moe-opt %s --fp8moe-to-cpu="chip=cpu-fnuz" | FileCheck %s --check-prefixes=CHECK,FNUZ
// RUN: fp8moe-opt %s --fp8moe-to-nvvm="chip=sm_90a" | FileCheck %s --check-prefixes=CHECK,NVVM
// RUN: fp8moe-opt %s --fp8moe-to-rocdl="chip=gfx942" | FileCheck %s --check-prefixes=CHECK,ROCDL

// RUN: not fp8moe-opt %s --fp8moe-to-nvvm 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: --fp8moe-to-nvvm needs chip=CHIP, one of sm_90a, sm_100a; found ''
// RUN: not fp8moe-opt %s --fp8moe-to-rocdl="chip=sm_90a" 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: --fp8moe-to-rocdl needs chip=CHIP, one of gfx942, gfx950; found 'sm_90a'

// RUN: not fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-to-cpu))" 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: not fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-loops-to-llvm))" 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: '[[NAME:fp8moe-[a-z-]+]]' is in the pipeline of 'func.func', but runs on 'builtin.module': move it out of 'func.func(...)'

// CPU: module attributes {fp8moe.target = #fp8moe.target<"cpu">}
// FNUZ: module attributes {fp8moe.target = #fp8moe.target<"cpu-fnuz">}
// NVVM: #fp8moe.target<"sm_90a">
// ROCDL: #fp8moe.target<"gfx942">
// CHECK-NOT: tensor<
// CHECK-DAG: fp8moe_plan.program @quantize
// CHECK-DAG: llvm.func
// CHECK-NOT: tensor<
func.func @quantize(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = call @body(%x) : (tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>)
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}

// Each function is lowered to a program of its own, so private functions are inlined first.
func.func private @body(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
