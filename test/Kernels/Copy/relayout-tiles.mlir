// RUN: fp8moe-opt %s --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// A 64x64 tile is transposed in shared memory. The column length is dynamic, so columns may begin
// at any address.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @transposed(%x: tensor<?x?xbf16>) -> tensor<?x?xbf16, #fp8moe.strided<[1, 0]>> {
    %y = fp8moe.relayout %x : tensor<?x?xbf16> -> tensor<?x?xbf16, #fp8moe.strided<[1, 0]>>
    return %y : tensor<?x?xbf16, #fp8moe.strided<[1, 0]>>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK:         llvm.mlir.global internal @copy_tiles_0_tile() {{.*}} !llvm.array<8192 x i8>
// CHECK:         gpu.func @copy_tiles_0
// CHECK:         gpu.barrier
// If the pitch is a multiple of 16 bytes, each 16-byte word of the tile is stored as it is.
// CHECK:         scf.if %{{.*}} {
// CHECK:         %[[CHUNK:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.store %[[CHUNK]], %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// Otherwise each column begins at another address. From its first aligned address on, every stored
// word is shifted from two words of the tile.
// CHECK:         } else {
// CHECK:         scf.for
// CHECK:         %[[ADDRESS:.*]] = llvm.ptrtoint %[[COLUMN:.*]] : !llvm.ptr<1> to i64
// CHECK:         %[[LOW:.*]] = arith.trunci %[[ADDRESS]] : i64 to i32
// CHECK:         %[[START:.*]] = arith.addi %[[LOW]], %{{.*}} : i32
// CHECK:         %[[NEGATED:.*]] = arith.subi %c0_i32, %[[START]] : i32
// CHECK:         %[[BEFORE:.*]] = arith.andi %[[NEGATED]], %c15_i32 : i32
// CHECK:         %[[WHOLE:.*]] = arith.addi %{{.*}}, %[[BEFORE]] : i32
// CHECK:         %[[POSITION:.*]] = arith.addi %[[WHOLE]], %{{.*}} : i32
// CHECK:         %[[END:.*]] = arith.addi %[[POSITION]], %c16_i32 : i32
// CHECK:         arith.cmpi sle, %[[END]], %{{.*}} : i32
// CHECK:         scf.if
// CHECK:         %[[FIRST:.*]] = arith.divui %[[POSITION]], %c16_i32 : i32
// CHECK:         %[[NEXT:.*]] = arith.addi %[[FIRST]], %c1_i32 : i32
// CHECK:         arith.minsi %[[NEXT]], %c7_i32 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-4: llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// The bytes before the first and behind the last aligned word are stored in smaller parts.
// CHECK:         scf.for
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
