// RUN: rm -rf %t && fp8moe-opt %s --test-fp8moe-write-artifact="chip=cpu dir=%t/a" -o /dev/null
// RUN: FileCheck %s --input-file=%t/a/manifest.json

// Compiling twice gives the same bytes.
// RUN: fp8moe-opt %s --test-fp8moe-write-artifact="chip=cpu dir=%t/b" -o /dev/null
// RUN: diff -r %t/a %t/b

// CHECK: "schema": 1,
// CHECK-NEXT: "min_runtime": "0.1.0",
// CHECK-NEXT: "producer": "fp8moe {{[0-9.]+}}, LLVM 22.{{.*}}",
// CHECK-NEXT: "target": {
// CHECK-NEXT: "chip": "cpu",
// CHECK-NEXT: "kind": "cpu",
// CHECK-NEXT: "fp8": "fn"
// CHECK-NEXT: },
// CHECK-NEXT: "binaries": [
// CHECK-NEXT: {
// CHECK-NEXT: "file": "kernels.so",
// CHECK-NEXT: "format": "so",
// CHECK-NEXT: "xxh3": "{{[0-9a-f]+}}"
// CHECK: "programs": [
llvm.func @k(%n: i64) {
  llvm.return
}
llvm.func @b(%x: !llvm.ptr, %q: !llvm.ptr) {
  llvm.return
}

// The caller binds the dynamic extents. The manifest computes the strides of dense buffers and of
// outputs.
// CHECK: "name": "buffers",
// CHECK-NEXT: "buffers": [
// CHECK-NEXT: {"role": "input", "name": "x \"1\"", "dtype": "BF16", "shape": [{"dim": [0, 0]}, {"dim": [0, 1]}, 8], "strides": [{"value": 1}, 8, 1], "align": 16},
// CHECK-NEXT: {"role": "input", "name": "w", "dtype": "F32", "shape": [4, {"dim": [1, 1]}], "strides": [1, {"stride": [1, 1]}], "align": 4},
// CHECK-NEXT: {"role": "output", "name": "q", "dtype": "F8_E4M3FNUZ", "shape": [{"value": 2}, 4], "strides": [1, {"value": 3}], "align": 16},
// CHECK-NEXT: {"role": "workspace", "dtype": "BOOL", "shape": [{"value": 2}], "strides": [1], "align": 256}
// CHECK-NEXT: ],
// CHECK-NEXT: "values": [
// CHECK-NEXT: {"op": "dim", "args": [0, 1]},
// CHECK-NEXT: {"op": "mul", "args": [{"value": 0}, 8]},
// CHECK-NEXT: {"op": "dim", "args": [0, 0]},
// CHECK-NEXT: {"op": "stride", "args": [1, 1]}
// CHECK-NEXT: ],
// CHECK-NEXT: "launches": [
// CHECK-NEXT: {"kernel": "b", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0, "args": [{"buffer": 0}, {"buffer": 2}]}
// CHECK-NEXT: ]
fp8moe_plan.program @buffers {
  %x = fp8moe_plan.input "x \221\22" align 16 : memref<?x?x8xbf16>
  %w = fp8moe_plan.input "w" align 4 : memref<4x?xf32, strided<[1, ?]>>
  %m = fp8moe_plan.dim %x, 0 : memref<?x?x8xbf16>
  %ld = fp8moe_plan.stride %w, 1 : memref<4x?xf32, strided<[1, ?]>>
  %q = fp8moe_plan.output "q" sizes(%m) strides(%ld) align 16
      : memref<?x4xf8E4M3FNUZ, strided<[1, ?]>>
  %t = fp8moe_plan.workspace sizes(%m) align 256 : memref<?xi1>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @b grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%x, %q) : memref<?x?x8xbf16>, memref<?x4xf8E4M3FNUZ, strided<[1, ?]>>
}

// The manifest has every arithmetic operation that programs may use. "Greater" is written as "less"
// with swapped operands. Common subexpressions are written once, and unused values not at all.
// CHECK: "name": "arithmetic",
// CHECK: "values": [
// CHECK-NEXT: {"op": "dim", "args": [0, 0]},
// CHECK-NEXT: {"op": "le", "args": [7, {"value": 0}]},
// CHECK-NEXT: {"op": "lt", "args": [0, {"value": 0}]},
// CHECK-NEXT: {"op": "and", "args": [{"value": 2}, {"value": 1}]},
// CHECK-NEXT: {"op": "or", "args": [{"value": 3}, {"value": 1}]},
// CHECK-NEXT: {"op": "ne", "args": [{"value": 4}, 1]},
// CHECK-NEXT: {"op": "add", "args": [{"value": 0}, 7]},
// CHECK-NEXT: {"op": "sub", "args": [{"value": 6}, 7]},
// CHECK-NEXT: {"op": "mul", "args": [{"value": 7}, {"value": 7}]},
// CHECK-NEXT: {"op": "div", "args": [{"value": 8}, 7]},
// CHECK-NEXT: {"op": "ceildiv", "args": [{"value": 9}, 7]},
// CHECK-NEXT: {"op": "rem", "args": [{"value": 10}, 7]},
// CHECK-NEXT: {"op": "max", "args": [{"value": 11}, 7]},
// CHECK-NEXT: {"op": "min", "args": [{"value": 12}, {"value": 0}]},
// CHECK-NEXT: {"op": "select", "args": [{"value": 5}, {"value": 13}, 7]}
// CHECK-NEXT: ],
// CHECK-NEXT: "requires": [
// CHECK-NEXT: {"cond": {"value": 1}, "message": "at least seven"}
// CHECK-NEXT: ],
// CHECK-NEXT: "launches": [
// CHECK-NEXT: {"kernel": "k", "grid": [{"value": 0}, 1, 1], "block": [1, 1, 1], "shared": 0, "when": {"value": 2}, "args": [{"value": 14}]}
fp8moe_plan.program @arithmetic {
  %x = fp8moe_plan.input "x" align 4 : memref<?xf32>
  %m = fp8moe_plan.dim %x, 0 : memref<?xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %true = arith.constant true
  %p = arith.cmpi sgt, %m, %c0 : index
  %r = arith.cmpi uge, %m, %c7 : index
  fp8moe_plan.require %r, "at least seven"
  %unused = arith.divsi %c7, %m : index
  %unused_too = fp8moe_plan.device_attr l2_bytes : index
  %add = arith.addi %m, %c7 : index
  %again = arith.addi %m, %c7 : index
  %sub = arith.subi %again, %c7 : index
  %mul = arith.muli %sub, %sub : index
  %div = arith.divui %mul, %c7 : index
  %ceil = arith.ceildivui %div, %c7 : index
  %rem = arith.remui %ceil, %c7 : index
  %max = arith.maxui %rem, %c7 : index
  %min = arith.minsi %max, %m : index
  %and = arith.andi %p, %r : i1
  %or = arith.ori %and, %r : i1
  %xor = arith.xori %or, %true : i1
  %sel = arith.select %xor, %min, %c7 : index
  fp8moe_plan.launch @k grid(%m, %c1, %c1) block(1, 1, 1) shared 0 when(%p)
      args(%sel) : index
}
// CHECK: "decisions": []
