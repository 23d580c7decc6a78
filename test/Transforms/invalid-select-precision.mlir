// Errors in the options of the pass, and its warnings.

// RUN: not fp8moe-opt %s --fp8moe-select-precision="policy=best" 2>&1 | FileCheck %s --check-prefix=POLICY
// POLICY: error: unknown precision policy 'best'; expects one of cost, torchao, all, none

// RUN: not fp8moe-opt %s --fp8moe-select-precision="recipe=blockwise" 2>&1 | FileCheck %s --check-prefix=RECIPE
// RECIPE: error: unknown precision recipe 'blockwise'; expects one of rowwise, tensorwise, mxfp8

// RUN: not fp8moe-opt %s --fp8moe-select-precision="policy=torchao recipe=mxfp8" 2>&1 | FileCheck %s --check-prefix=TORCHAO
// TORCHAO: error: torchao has no rule for recipe 'mxfp8'; use recipe rowwise or tensorwise, or policy cost, all or none

// RUN: not fp8moe-opt %s --fp8moe-select-precision="recipe=tensorwise" 2>&1 | FileCheck %s --check-prefix=TENSOR
// TENSOR: error: policy 'cost' predicts no times for recipe 'tensorwise', which has no kernels; use recipe rowwise, or policy torchao, all or none

// RUN: not fp8moe-opt %s --fp8moe-select-precision="for=sm_1" 2>&1 | FileCheck %s --check-prefix=CHIP
// CHIP: error: cannot decide for unknown target 'sm_1'; known targets: cpu, {{.*}}sm_90a{{.*}}; known cards: h200, {{.*}}h100

// RUN: not fp8moe-opt %s --fp8moe-select-precision="tokens=-1" 2>&1 | FileCheck %s --check-prefix=TOKENS
// TOKENS: error: option tokens expects an integer from 0 to 67108864, found -1
// RUN: not fp8moe-opt %s --fp8moe-select-precision="tokens=67108865" 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: error: option tokens expects an integer from 0 to 67108864, found 67108865

// RUN: not fp8moe-compile %s --precision-filter= --emit=tensor 2>&1 | FileCheck %s --check-prefix=NOTEXT
// NOTEXT: error: expects filters that have text, found an empty one, which is in every name; remove it, or use policy none

// RUN: fp8moe-opt %s --fp8moe-select-precision="recipe=mxfp8" 2>&1 | FileCheck %s --check-prefix=MX
// MX: :[[@LINE+18]]:10: warning: 'fp8moe.linear' stays in bf16: no kernel of target sm_90a has matrix instructions that take scales of blocks, and without them recipe 'mxfp8' is slower than bf16; use recipe 'rowwise', or write 'fp8' where it shall be FP8 all the same
// MX: precision <bf16, "layers.0.wq", forward, recipe = mxfp8, {{.*}} reason = "recipe mxfp8: no kernel of sm_90a has matrix instructions that take scales of blocks">

// RUN: fp8moe-opt %s --fp8moe-select-precision="filter-fqns=wq,output" 2>&1 | FileCheck %s --check-prefix=FILTER
// FILTER-NOT: warning: filter 'wq'
// FILTER: warning: filter 'output' is in no name of a matmul; check its spelling

// RUN: echo 'module attributes {fp8moe.target = #fp8moe.target<"cpu">} {}' | fp8moe-opt --fp8moe-select-precision 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: warning: no matmul has a 'precision' to decide; name them with 'precision <undecided, "NAME", forward>'

// RUN: echo 'module {}' | not fp8moe-opt --fp8moe-select-precision 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: the module names no target

// RUN: sed 's/8192/?/g' %s | not fp8moe-opt --fp8moe-select-precision="policy=torchao" 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: error: 'fp8moe.linear' op has weights of a size that is not known, but policy 'torchao' compares N and K; give it known sizes, or use policy 'cost'

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @f(%x: tensor<64x4096xbf16>, %w: tensor<4096x8192xbf16>) -> tensor<64x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "layers.0.wq", forward>
        : tensor<64x4096xbf16>, tensor<4096x8192xbf16> -> tensor<64x8192xbf16>
    return %y : tensor<64x8192xbf16>
  }
}
