// RUN: fp8moe-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(func.func(fp8moe-place-layouts{verify-optimal}),canonicalize)' \
// RUN: | FileCheck %s

// `.t().contiguous().t()` before a kernel that reads any order: the kernel reads the argument, and
// the copy vanishes.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @transpose_contiguous_transpose
  // CHECK-SAME: (%[[X:.*]]: tensor<?x2048xbf16>, %[[ENDS:.*]]: tensor<64xi32>)
  func.func @transpose_contiguous_transpose(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>) {
    // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %[[X]] groups(%[[ENDS]]
    // CHECK-NOT: relayout
    %t = fp8moe.transpose %x [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #col>
    %c = fp8moe.contiguous %t : tensor<2048x?xbf16, #col> -> tensor<2048x?xbf16>
    %v = fp8moe.transpose %c [1, 0] : tensor<2048x?xbf16> -> tensor<?x2048xbf16, #col>
    %q, %s = fp8moe.jagged_dynamic_quantize %v groups(%ends : tensor<64xi32>) along [0]
        rounding pow2 : tensor<?x2048xbf16, #col>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>
  }
}

// -----

// The quantization writes the returned layout directly.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @producer_writes
  func.func @producer_writes(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
      -> tensor<?x2048xf8E4M3FN, #col> {
    // CHECK: %[[Q:.*]], %{{.*}} = fp8moe.jagged_dynamic_quantize {{.*}} -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>
    // CHECK-NEXT: return %[[Q]]
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<64xi32>) along [0]
        rounding pow2 : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<64x2048xf32>
    %c = fp8moe.relayout %q : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #col>
    return %c : tensor<?x2048xf8E4M3FN, #col>
  }
}

// -----

// A result that is used in two layouts is copied once.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @both_ways
  func.func @both_ways(%x: tensor<?x2048xbf16>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>) {
    // CHECK: %[[Q:.*]], %{{.*}} = fp8moe.dynamic_quantize
    // CHECK-NEXT: %[[C:.*]] = fp8moe.relayout %[[Q]]
    // CHECK-NEXT: return %[[C]], %[[Q]], %[[C]]
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %c0 = fp8moe.relayout %q : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #col>
    %c1 = fp8moe.relayout %q : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #col>
    return %c0, %q, %c1 : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>,
                          tensor<?x2048xf8E4M3FN, #col>
  }
}

// -----

// wgmma reads FP8 operands with K contiguous, so the weights are quantized to that layout.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @matmul_operands
  func.func @matmul_operands(%x: tensor<?x2048xbf16>, %w: tensor<64x2048x1408xbf16>,
                             %ends: tensor<64xi32>) -> tensor<?x1408xbf16> {
    // CHECK: dynamic_quantize %arg0 {{.*}} -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    // CHECK: dynamic_quantize %arg1 {{.*}} -> tensor<64x2048x1408xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
    // CHECK-NOT: relayout
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %qw, %sw = fp8moe.dynamic_quantize %w along [1] rounding pow2
        : tensor<64x2048x1408xbf16> -> tensor<64x2048x1408xf8E4M3FN>, tensor<64x1408xf32>
    %o = fp8moe.grouped_matmul %q, %qw groups(%ends : tensor<64xi32>)
        scales(%s, %sw : tensor<?xf32>, tensor<64x1408xf32>) direction quantize
        : tensor<?x2048xf8E4M3FN>, tensor<64x2048x1408xf8E4M3FN> -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }
}

// -----

// Both branches write the layout of the copy after them.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @through_if
  func.func @through_if(%x: tensor<?x2048xbf16>, %flag: i1) -> tensor<?x2048xf8E4M3FN, #col> {
    // CHECK: %[[R:.*]] = scf.if {{.*}} -> (tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>)
    // CHECK: return %[[R]]
    %r = scf.if %flag -> tensor<?x2048xf8E4M3FN> {
      %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
          : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
      scf.yield %q : tensor<?x2048xf8E4M3FN>
    } else {
      %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
          : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<2048xf32>
      scf.yield %q : tensor<?x2048xf8E4M3FN>
    }
    %c = fp8moe.relayout %r : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #col>
    return %c : tensor<?x2048xf8E4M3FN, #col>
  }
}

// -----

// A copy of a loop-invariant value moves out of the loop.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func private @user(tensor<?x2048xbf16, #col>)
  // CHECK-LABEL: func.func @out_of_loop
  func.func @out_of_loop(%x: tensor<?x2048xbf16>, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: %[[C:.*]] = fp8moe.relayout
    // CHECK: scf.for
    // CHECK-NEXT: call @user(%[[C]])
    scf.for %i = %c0 to %n step %c1 {
      %c = fp8moe.relayout %x : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #col>
      func.call @user(%c) : (tensor<?x2048xbf16, #col>) -> ()
    }
    return
  }
}

// -----

// An argument with explicit strides is read with these strides, not assumed dense.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @explicit_strides
  // CHECK-SAME: (%[[X:.*]]: tensor<128x64xbf16, #fp8moe.strided<[0, 1], strides = [80, 1]>>)
  func.func @explicit_strides(%x: tensor<128x64xbf16, #fp8moe.strided<[0, 1], strides = [80, 1]>>)
      -> tensor<128xf32> {
    // CHECK-NEXT: fp8moe.scale %[[X]] {{.*}} : tensor<128x64xbf16, #fp8moe.strided<[0, 1], strides = [80, 1]>>
    %c = fp8moe.contiguous %x
        : tensor<128x64xbf16, #fp8moe.strided<[0, 1], strides = [80, 1]>> -> tensor<128x64xbf16>
    %s = fp8moe.scale %c along 1 rounding pow2 fp8 f8E4M3FN : tensor<128x64xbf16> -> tensor<128xf32>
    return %s : tensor<128xf32>
  }
}

// -----

// With a dimension of size 1, one layout has several spellings. The yielded value must have exactly
// the type of the result.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @yield_keeps_spelling
  func.func @yield_keeps_spelling(%x: tensor<64x64x1xbf16>, %flag: i1)
      -> tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>> {
    %y = fp8moe.relayout %x : tensor<64x64x1xbf16> -> tensor<64x64x1xbf16, #fp8moe.strided<[1, 0, 2]>>
    %z = fp8moe.relayout %y : tensor<64x64x1xbf16, #fp8moe.strided<[1, 0, 2]>> -> tensor<64x64x1xbf16>
    %r = scf.if %flag -> (tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>) {
      // CHECK: fp8moe.relayout %{{.*}} : tensor<64x64x1xbf16> -> tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>
      %a = fp8moe.relayout %z : tensor<64x64x1xbf16> -> tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>
      scf.yield %a : tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>
    } else {
      %q, %s = fp8moe.dynamic_quantize %z along [1] rounding pow2
          : tensor<64x64x1xbf16> -> tensor<64x64x1xf8E4M3FN>, tensor<64x1xf32>
      %d = fp8moe.dequantize %q by %s along 1 direction quantize
          : tensor<64x64x1xf8E4M3FN>, tensor<64x1xf32> -> tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>
      scf.yield %d : tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>
    }
    return %r : tensor<64x64x1xbf16, #fp8moe.strided<[0, 2, 1]>>
  }
}

// -----

// A copy after control flow is also useful before it: one copy serves both.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @wanted_through_a_branch
  // CHECK-SAME: %[[X:[^:]*]]: tensor<3x48x32xbf16, #fp8moe.strided<[0, 2, 1]>>
  func.func @wanted_through_a_branch(%x: tensor<3x48x32xbf16, #fp8moe.strided<[0, 2, 1]>>, %flag: i1)
      -> tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>> {
    // CHECK: %[[C:.*]] = fp8moe.relayout %[[X]]
    // CHECK-NOT: scf.if
    // CHECK: return %[[C]]
    %r = scf.if %flag -> (tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>>) {
      %a = fp8moe.relayout %x : tensor<3x48x32xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>>
      scf.yield %a : tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>>
    } else {
      %b = fp8moe.relayout %x : tensor<3x48x32xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>>
      scf.yield %b : tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>>
    }
    return %r : tensor<3x48x32xbf16, #fp8moe.strided<[1, 0, 2]>>
  }
}

// -----

// Unknown strides of an argument equal themselves, so the kernel reads the argument.

#any = #fp8moe.strided<[0, 1], strides = [?, ?]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @unknown_strides
  // CHECK-SAME: (%[[X:.*]]: tensor<?x?xbf16, #{{.*}}>
  func.func @unknown_strides(%x: tensor<?x?xbf16, #any>, %ends: tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>) {
    // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %[[X]] groups
    // CHECK-NEXT: return
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]
        rounding pow2 : tensor<?x?xbf16, #any> -> tensor<?x?xf8E4M3FN>, tensor<?x?xf32>
    return %q, %s : tensor<?x?xf8E4M3FN>, tensor<?x?xf32>
  }
}
