// RUN: fp8moe-opt %s --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Block scales are copied to and from the blocked layout. A thread copies 16 bytes of a tile: four
// scales of each of four rows.

#blocked = #fp8moe.scale_blocked<128x4>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Four adjacent scales are loaded as one word if they are in one row, otherwise as bytes. Scales
  // outside of the matrix are zero.
  // CHECK-LABEL: gpu.func @scales_to_tiles_0
  // CHECK-COUNT-4: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  // CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  func.func @to(%s: tensor<?x10xf8E8M0FNU>) -> tensor<?x10xf8E8M0FNU, #blocked> {
    %b = fp8moe.relayout %s : tensor<?x10xf8E8M0FNU> -> tensor<?x10xf8E8M0FNU, #blocked>
    return %b : tensor<?x10xf8E8M0FNU, #blocked>
  }

  // Each expert has its own tiles. Only scales inside of the matrix are stored.
  // CHECK-LABEL: gpu.func @scales_from_tiles_1
  // CHECK:         llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
  // CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
  // CHECK-LABEL: fp8moe_plan.program @to
  // CHECK-LABEL: fp8moe_plan.program @from
  // CHECK:         fp8moe_plan.launch @fp8moe_kernels::@scales_from_tiles_1
  func.func @from(%b: tensor<4x200x10xf8E8M0FNU, #blocked>) -> tensor<4x200x10xf8E8M0FNU> {
    %s = fp8moe.relayout %b : tensor<4x200x10xf8E8M0FNU, #blocked> -> tensor<4x200x10xf8E8M0FNU>
    return %s : tensor<4x200x10xf8E8M0FNU>
  }
}
