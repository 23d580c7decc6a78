// Bytes are a formula in the dynamic sizes. Sizes are called tokens and groups where operations
// determine that. If several could be the tokens, no number is computed.

// RUN: fp8moe-compile %s --target=cpu -o %t --report --tokens=1024 --optimize-layouts=false | FileCheck %s

// The report keeps no reference to the MLIR context, which is gone when it prints. MALLOC_PERTURB_
// overwrites freed memory.
// RUN: env MALLOC_PERTURB_=165 fp8moe-compile %s --target=cpu -o %t --report --tokens=1024 --optimize-layouts=false | FileCheck %s

// RUN: fp8moe-compile %s --target=sm_90a -o %t --report 2>/dev/null | FileCheck %s --check-prefix=TIMES

// CHECK-LABEL: program groups
// CHECK:       fp8moe.jagged_dynamic_quantize line {{[0-9]+}} 192 B/token + 260 B/group 0.2 MiB
// CHECK-NEXT:  total 192 B/token + 260 B/group 0.2 MiB
func.func @groups(%x: tensor<?x64xbf16>, %ends: tensor<?xi32>)
    -> (tensor<?x64x!fp8moe.e4m3>, tensor<?x64xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]
      rounding pow2 : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?x64xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?x64xf32>
}

// CHECK-LABEL: program products
// CHECK:       fp8moe.jagged_dynamic_quantize line {{[0-9]+}} 3 B x ? x ? + 4 B x groups x ? + 4 B/group ? MiB
func.func @products(%x: tensor<?x?xbf16>, %ends: tensor<?xi32>)
    -> (tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]
      rounding pow2 : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>
}

// A program may move more bytes than one tensor may have. The report then has no lower bound of the
// time.
// TIMES:       fp8moe.relayout {{.*}} us -{{$}}
// CHECK-LABEL: program many_bytes
// CHECK:       fp8moe.contiguous line {{[0-9]+}} 9223372036854775808 B/token
// CHECK:       total 9223372036854775808 B/token
func.func @many_bytes(%x: tensor<?x1048576x1048576x1048576xf32, #fp8moe.strided<[1, 0, 2, 3]>>)
    -> tensor<?x1048576x1048576x1048576xf32> {
  %0 = fp8moe.contiguous %x : tensor<?x1048576x1048576x1048576xf32, #fp8moe.strided<[1, 0, 2, 3]>>
      -> tensor<?x1048576x1048576x1048576xf32>
  return %0 : tensor<?x1048576x1048576x1048576xf32>
}

// Weights of a dynamic number of experts, and their scales, count as bytes per group. Otherwise the
// lower bound could exceed the predicted time.
// CHECK-LABEL: program experts
// CHECK:       fp8moe.dynamic_quantize line {{[0-9]+}} 12544 B/group 0.1 MiB
// CHECK:       fp8moe.grouped_matmul line {{[0-9]+}} 196 B/token + 4356 B/group
func.func @experts(%x: tensor<?x64x!fp8moe.e4m3>, %s: tensor<?xf32>, %w: tensor<?x64x64xbf16>, %ends: tensor<?xi32>)
    -> tensor<?x64xbf16> {
  %q, %t = fp8moe.dynamic_quantize %w along [1] rounding pow2
      : tensor<?x64x64xbf16> -> tensor<?x64x64x!fp8moe.e4m3>, tensor<?x64xf32>
  %y = fp8moe.grouped_matmul %x, %q groups(%ends : tensor<?xi32>)
      scales(%s, %t : tensor<?xf32>, tensor<?x64xf32>) direction quantize
      : tensor<?x64x!fp8moe.e4m3>, tensor<?x64x64x!fp8moe.e4m3> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
