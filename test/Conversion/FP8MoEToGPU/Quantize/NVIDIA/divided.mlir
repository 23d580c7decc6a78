// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Divisors: a kernel before the single-pass one computes factors, and the groups of rows.

#rows = #fp8moe.strided<[0, 1], align = 16>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @both(%x: tensor<?x1024xbf16, #rows>, %ends: tensor<8xi32>, %d0: tensor<?xf32>, %d1: tensor<8x1024xf32>)
      -> (tensor<?x1024xf8E4M3FN, #padded>, tensor<?x1024xf8E4M3FN, #rows>, tensor<8x1024xf32>, tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>)
        divided(%d0, %d1 : tensor<?xf32>, tensor<8x1024xf32>) along [0, 1] rounding pow2
        : tensor<?x1024xbf16, #rows>
        -> tensor<?x1024xf8E4M3FN, #padded>, tensor<?x1024xf8E4M3FN, #rows>, tensor<8x1024xf32>, tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x1024xf8E4M3FN, #padded>, tensor<?x1024xf8E4M3FN, #rows>, tensor<8x1024xf32>, tensor<?xf32>
  }
}

// Groups have scales without rows, too.
// CHECK-LABEL: gpu.func @quantize_no_rows_0
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : f32
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8

// A factor of a row is a word, one of a group a bf16. The group of a row is the first one that ends behind it.
// CHECK-LABEL: gpu.func @divisor_factors_1
// CHECK:         %[[F:.*]] = arith.divf %{{.*}}, %{{.*}} : f32
// CHECK:         nvvm.convert.f32x2.to.bf16x2 %[[F]], %[[F]]
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32
// CHECK:         llvm.store %{{.*}} {alignment = 2 : i64} : i16
// CHECK:         arith.minsi
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32

// Magnitudes are those of products.
// CHECK-LABEL: gpu.func @quantize_single_pass_both_axes_2
// CHECK:         nvvm.setmaxregister decrease 72
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK-COUNT-8: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         %[[P:.*]] = arith.mulf %{{.*}} : vector<8xbf16>
// CHECK:         %[[PRODUCT:.*]] = vector.bitcast %[[P]]
// CHECK:         arith.andi %[[PRODUCT]]
// So are cells, of whose 16 rows a lane has the factors of four.
// CHECK:         nvvm.setmaxregister increase 112
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         gpu.shuffle idx
// CHECK:         arith.mulf %{{.*}} : vector<4xbf16>
// A row has the factors of its group, which is known a row before. They stay in registers until the group is another
// one, and are on their way when the row is waited for. So short a row is held until it is converted.
// CHECK:         nvvm.setmaxregister decrease 80
// CHECK:         %[[FIRST:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         scf.for {{.*}} iter_args(%[[GROUP:[^ ]*]] = %[[FIRST]], %[[HELD:[^ ]*]] = %{{[^ ]*}}, %[[F0:[^ ]*]] =
// CHECK:         llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         arith.cmpi eq, %[[GROUP]], %[[HELD]]
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      scf.yield %[[F0]]
// CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         nvvm.mbarrier.try_wait
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-4: arith.mulf %{{.*}} : vector<8xbf16>
// CHECK-NOT:     nvvm.barrier
// CHECK:         nvvm.redux.sync umax
// CHECK-NOT:     llvm.load {{.*}} !llvm.ptr<3> -> vector<4xi32>
// CHECK:         nvvm.setmaxregister increase 104

// There is no other kernel, so that sizes are required.
// CHECK-LABEL: fp8moe_plan.program @both
// CHECK:         fp8moe_plan.require %{{.*}}, "a quantization with divisors needs rows at multiples of 16 bytes
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_no_rows_0
// CHECK:         fp8moe_plan.launch @{{.*}}::@divisor_factors_1
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_single_pass_both_axes_2
// CHECK-NOT:     fp8moe_plan.launch

// -----

// Four warps share a row of 8192 elements, whose factors are eight chunks of each of their lanes. They meet once, and
// multiply again what they convert.

#rows = #fp8moe.strided<[0, 1], align = 16>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @long_rows(%x: tensor<?x8192xbf16, #rows>, %ends: tensor<8xi32>, %d0: tensor<?xf32>, %d1: tensor<8x8192xf32>)
      -> (tensor<?x8192xf8E4M3FN, #padded>, tensor<?x8192xf8E4M3FN, #rows>, tensor<8x8192xf32>, tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>)
        divided(%d0, %d1 : tensor<?xf32>, tensor<8x8192xf32>) along [0, 1] rounding pow2
        : tensor<?x8192xbf16, #rows>
        -> tensor<?x8192xf8E4M3FN, #padded>, tensor<?x8192xf8E4M3FN, #rows>, tensor<8x8192xf32>, tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x8192xf8E4M3FN, #padded>, tensor<?x8192xf8E4M3FN, #rows>, tensor<8x8192xf32>, tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_single_pass_both_axes_2
// CHECK:         nvvm.setmaxregister decrease 80
// CHECK-COUNT-8: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         nvvm.mbarrier.try_wait
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-8: arith.mulf %{{.*}} : vector<8xbf16>
// CHECK:         nvvm.redux.sync umax
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// The stage of the row before is free: what it has next is on its way.
// CHECK:         nvvm.cp.async.bulk.shared.cluster.global
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>

// -----

// Groups alone, whose rows are known: nothing is left without rows.

#rows = #fp8moe.strided<[0, 1], align = 16>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @columns(%x: tensor<4096x64xf32, #rows>, %ends: tensor<8xi32>, %d: tensor<4096xf32>)
      -> (tensor<5120x64xf8E4M3FN, #padded>, tensor<8x64xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) divided(%d : tensor<4096xf32>)
        along [0] rounding pow2
        : tensor<4096x64xf32, #rows> -> tensor<5120x64xf8E4M3FN, #padded>, tensor<8x64xf32>
    return %q, %s : tensor<5120x64xf8E4M3FN, #padded>, tensor<8x64xf32>
  }
}

// CHECK-LABEL: gpu.func @divisor_factors_0
// CHECK-LABEL: gpu.func @quantize_single_pass_outer_1
// CHECK:         arith.mulf %{{.*}} : vector<4xf32>
// CHECK-LABEL: fp8moe_plan.program @columns
// CHECK-NOT:     fp8moe_plan.require
// CHECK:         fp8moe_plan.launch @{{.*}}::@divisor_factors_0
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_single_pass_outer_1
// CHECK-NOT:     fp8moe_plan.launch
