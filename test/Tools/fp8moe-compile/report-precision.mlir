// RUN: fp8moe-compile %s --target=sm_90a --target=cpu --tokens=8192 --precision-filter=head -o %t --report | FileCheck %s
// RUN: fp8moe-compile %s --target=sm_90a --precision-policy=none --emit=tensor | FileCheck %s --check-prefix=NONE
// RUN: fp8moe-compile %s --target=cpu --precision-for=sm_90a --precision-filter=head --emit=tensor | FileCheck %s --check-prefix=FOR
// RUN: not fp8moe-compile %s --target=sm_90a --precision-recipe=nvfp4 --emit=tensor 2>&1 | FileCheck %s --check-prefix=RECIPE
// RECIPE: error: unknown precision recipe 'nvfp4'; expects one of rowwise, tensorwise, mxfp8

// The report lists precision decisions by name, and their total gain.

// CHECK: target sm_90a
// CHECK: {{^}}  matmul, predicted                use     rows x contraction x columns   bf16 us    FP8 us        why{{$}}
// CHECK-NEXT: {{^}}    layers.0.feed_forward.w1       forward ? x 4096 x 14336 {{[0-9]+\.[0-9] [0-9]+\.[0-9]}} fp8 FP8 is predicted to be {{1.[0-9]+}}x as fast{{$}}
// CHECK-NEXT: {{^}}    ..._name_that_is_too_long.gate forward ? x 4096 x 64, 8 groups - - bf16{{$}}
// CHECK-NEXT: {{^}}    head                           forward ? x 4096 x 32768 {{.*}} bf16  filtered by 'head'
// CHECK-NEXT: {{^}}    all together {{[0-9]+\.[0-9] [0-9]+\.[0-9]$}}
// CHECK-NEXT: {{^}}    as decided {{[0-9.]+}} us, {{[0-9.]+}}x as fast as all in bf16, {{[0-9.]+}}x as all in FP8
// The CPU predicts no times, so there is no total.
// CHECK: target cpu
// CHECK: head                           forward ? x 4096 x 32768                     -         -  bf16  filtered by 'head'
// CHECK-NOT: all together

// NONE-NOT: quantize
// NONE: reason = "policy none"

// With --precision-for, the CPU artifact takes the decisions of a GPU.
// FOR: fp8moe.linear {{.*}} precision <fp8, "layers.0.feed_forward.w1", forward

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

func.func @model(%x: tensor<?x4096xbf16>, %w1: tensor<4096x14336xbf16, #columns>, %gate: tensor<8x4096x64xbf16, #expert_columns>,
    %head: tensor<4096x32768xbf16, #columns>, %ends: tensor<8xi32>)
    -> (tensor<?x14336xbf16>, tensor<?x64xbf16>, tensor<?x32768xbf16>) {
  %0 = fp8moe.linear %x, %w1 precision <undecided, "layers.0.feed_forward.w1", forward>
      : tensor<?x4096xbf16>, tensor<4096x14336xbf16, #columns> -> tensor<?x14336xbf16>
  %1 = fp8moe.grouped_matmul %x, %gate groups(%ends : tensor<8xi32>)
      precision <bf16, "layers.0.a_name_that_is_too_long.gate", forward>
      : tensor<?x4096xbf16>, tensor<8x4096x64xbf16, #expert_columns> -> tensor<?x64xbf16>
  %2 = fp8moe.linear %x, %head precision <undecided, "head", forward>
      : tensor<?x4096xbf16>, tensor<4096x32768xbf16, #columns> -> tensor<?x32768xbf16>
  return %0, %1, %2 : tensor<?x14336xbf16>, tensor<?x64xbf16>, tensor<?x32768xbf16>
}
