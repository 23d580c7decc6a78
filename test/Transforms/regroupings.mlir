// Copies that pad or pack jagged groups, or that block scales and back. The test pins which of them
// vanish on each target, and that a second run changes nothing.

// DEFINE: %{optimize} = fp8moe-opt --fp8moe-optimize-layouts
// DEFINE: %{chip} = cpu
// DEFINE: %{check} = sed 's/CHIP/%{chip}/' %s > %t.%{chip}.mlir \
// DEFINE:   && %{optimize} %t.%{chip}.mlir -o %t.%{chip}.once \
// DEFINE:   && FileCheck %s --input-file=%t.%{chip}.once \
// DEFINE:   && %{optimize} %t.%{chip}.once | diff %t.%{chip}.once -
// RUN: %{check}
// REDEFINE: %{chip} = sm_90a
// RUN: %{check}
// REDEFINE: %{chip} = sm_100a
// RUN: %{check}
// REDEFINE: %{chip} = gfx942
// RUN: %{check}
// REDEFINE: %{chip} = gfx950
// RUN: %{check}

// RUN: %{optimize} %t.cpu.mlir --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 \
// RUN: | FileCheck %t.cpu.mlir --check-prefix=REMARK

#col = #fp8moe.strided<[1, 0]>
#row_padded = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>
#col_padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
#row_padded_t = #fp8moe.strided<[1, 0], groups<dim = 1, pad = 16>>
#pad32 = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 32>>
#pad32_col = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 32>>
#tiles = #fp8moe.scale_blocked<128x4>
#tile_groups = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
#row_groups = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>
#col_groups = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"CHIP">} {

// The quantization writes the padded data in the returned order.
// CHECK-LABEL: func.func @padded_order
// CHECK-NEXT:    jagged_dynamic_quantize {{.*}} -> tensor<224x64x[[FP8:.*]], #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
// CHECK-NEXT:    return
func.func @padded_order(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<224x64xf8E4M3FN, #col_padded> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #row_padded>, tensor<8x64xf32>
  %r = fp8moe.relayout %q : tensor<224x64xf8E4M3FN, #row_padded> -> tensor<224x64xf8E4M3FN, #col_padded>
  return %r : tensor<224x64xf8E4M3FN, #col_padded>
}

// Before a matmul, the quantization writes the order that the matmul reads.
// CHECK-LABEL: func.func @padded_order_of_matmul
// CHECK-NOT:     relayout
// CHECK:         grouped_matmul
// CHECK-NOT:     relayout
// CHECK:         return
func.func @padded_order_of_matmul(%x: tensor<100x64xbf16>, %y: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> tensor<8x64x64xbf16> {
  %a, %sa = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #row_padded>, tensor<8x64xf32>
  %b, %sb = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #row_padded>, tensor<8x64xf32>
  %c = fp8moe.relayout %b : tensor<224x64xf8E4M3FN, #row_padded> -> tensor<224x64xf8E4M3FN, #col_padded>
  %t = fp8moe.transpose %a [1, 0] : tensor<224x64xf8E4M3FN, #row_padded> -> tensor<64x224xf8E4M3FN, #row_padded_t>
  %w = fp8moe.grouped_matmul %t, %c groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<8x64xf32>, tensor<8x64xf32>) direction quantize
      : tensor<64x224xf8E4M3FN, #row_padded_t>, tensor<224x64xf8E4M3FN, #col_padded> -> tensor<8x64x64xbf16>
  return %w : tensor<8x64x64xbf16>
}

// A copy may come before or after the padding: the quantization writes the final layout.
// CHECK-LABEL: func.func @relayout_and_pad
// CHECK-NEXT:    jagged_dynamic_quantize {{.*}} -> tensor<224x64x{{.*}}, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
// CHECK-NEXT:    return
func.func @relayout_and_pad(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<224x64xf8E4M3FN, #row_padded> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
  %c = fp8moe.relayout %q : tensor<100x64xf8E4M3FN> -> tensor<100x64xf8E4M3FN, #col>
  %p = fp8moe.relayout %c groups(%ends : tensor<8xi32>) : tensor<100x64xf8E4M3FN, #col> -> tensor<224x64xf8E4M3FN, #row_padded>
  return %p : tensor<224x64xf8E4M3FN, #row_padded>
}

// CHECK-LABEL: func.func @pad_and_relayout
// CHECK-NEXT:    jagged_dynamic_quantize {{.*}} -> tensor<224x64x{{.*}}, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
// CHECK-NEXT:    return
func.func @pad_and_relayout(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<224x64xf8E4M3FN, #col_padded> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
  %p = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<100x64xf8E4M3FN> -> tensor<224x64xf8E4M3FN, #row_padded>
  %r = fp8moe.relayout %p : tensor<224x64xf8E4M3FN, #row_padded> -> tensor<224x64xf8E4M3FN, #col_padded>
  return %r : tensor<224x64xf8E4M3FN, #col_padded>
}

// The padded result of a quantization is only used packed, so it is written packed.
// CHECK-LABEL: func.func @quantize_and_pack
// CHECK-NEXT:    jagged_dynamic_quantize {{.*}} -> tensor<100x64x{{.*}}, #fp8moe.strided<[1, 0]>>
// CHECK-NEXT:    return
func.func @quantize_and_pack(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<100x64xf8E4M3FN, #col> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #row_padded>, tensor<8x64xf32>
  %p = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<224x64xf8E4M3FN, #row_padded> -> tensor<100x64xf8E4M3FN>
  %r = fp8moe.relayout %p : tensor<100x64xf8E4M3FN> -> tensor<100x64xf8E4M3FN, #col>
  return %r : tensor<100x64xf8E4M3FN, #col>
}

// Rows that belong to no group were zero before, so packing undoes padding. One copy is left, as
// both forms are returned.
// CHECK-LABEL: func.func @pad_and_pack_of_zeros
// CHECK-NEXT:    %[[Q:[^,]*]], %{{.*}} = fp8moe.jagged_dynamic_quantize
// CHECK-NEXT:    %[[P:.*]] = fp8moe.relayout %[[Q]] groups
// CHECK-NEXT:    return %[[Q]], %[[P]]
func.func @pad_and_pack_of_zeros(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<100x64xf8E4M3FN>, tensor<224x64xf8E4M3FN, #row_padded>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
  %p = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<100x64xf8E4M3FN> -> tensor<224x64xf8E4M3FN, #row_padded>
  %r = fp8moe.relayout %p groups(%ends : tensor<8xi32>) : tensor<224x64xf8E4M3FN, #row_padded> -> tensor<100x64xf8E4M3FN>
  return %r, %p : tensor<100x64xf8E4M3FN>, tensor<224x64xf8E4M3FN, #row_padded>
}

// Rows of an argument that belong to no group may be nonzero. Padding and packing zeroes them, so
// both stay.
// CHECK-LABEL: func.func @pad_and_pack_of_argument
// CHECK-COUNT-2: relayout {{.*}} groups
// CHECK:         return
func.func @pad_and_pack_of_argument(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<100x64xbf16> {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %r = fp8moe.relayout %p groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  return %r : tensor<100x64xbf16>
}

// Every padding zeroes the same rows, in any order. The packing reads the padded tensor that is
// returned.
// CHECK-LABEL: func.func @shared_padding_of_other_order
// CHECK-NEXT:    %[[P:.*]] = fp8moe.relayout %{{.*}} groups{{.*}} -> tensor<352x64xbf16
// CHECK-NEXT:    %[[R:.*]] = fp8moe.relayout %[[P]] groups
// CHECK-NEXT:    return %[[P]], %[[R]]
func.func @shared_padding_of_other_order(%x: tensor<100x64xbf16, #col>, %ends: tensor<8xi32>)
    -> (tensor<352x64xbf16, #pad32>, tensor<100x64xbf16>) {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16, #col> -> tensor<352x64xbf16, #pad32>
  %o = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16, #col> -> tensor<352x64xbf16, #pad32_col>
  %r = fp8moe.relayout %o groups(%ends : tensor<8xi32>) : tensor<352x64xbf16, #pad32_col> -> tensor<100x64xbf16>
  return %p, %r : tensor<352x64xbf16, #pad32>, tensor<100x64xbf16>
}

// Both padded tensors are returned. The packing reads its own, which is smaller.
// CHECK-LABEL: func.func @own_padding_is_smaller
// CHECK-NEXT:    %[[P:.*]] = fp8moe.relayout %{{.*}} groups{{.*}} -> tensor<352x64xbf16
// CHECK-NEXT:    %[[O:.*]] = fp8moe.relayout %{{.*}} groups{{.*}} -> tensor<224x64xbf16
// CHECK-NEXT:    %[[R:.*]] = fp8moe.relayout %[[O]] groups
// CHECK-NEXT:    return %[[P]], %[[O]], %[[R]]
func.func @own_padding_is_smaller(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<352x64xbf16, #pad32>, tensor<224x64xbf16, #row_padded>, tensor<100x64xbf16>) {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<352x64xbf16, #pad32>
  %o = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %r = fp8moe.relayout %o groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  return %p, %o, %r : tensor<352x64xbf16, #pad32>, tensor<224x64xbf16, #row_padded>, tensor<100x64xbf16>
}

// Two packings of two otherwise unused paddings become one of each. The smaller padding is kept.
// CHECK-LABEL: func.func @shared_by_packings
// CHECK-NEXT:    %[[P:.*]] = fp8moe.relayout %{{.*}} groups{{.*}} -> tensor<224x64xbf16
// CHECK-NEXT:    %[[R:.*]] = fp8moe.relayout %[[P]] groups
// CHECK-NEXT:    return %[[R]], %[[R]]
func.func @shared_by_packings(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> (tensor<100x64xbf16>, tensor<100x64xbf16>) {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<352x64xbf16, #pad32>
  %r = fp8moe.relayout %p groups(%ends : tensor<8xi32>) : tensor<352x64xbf16, #pad32> -> tensor<100x64xbf16>
  %o = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %s = fp8moe.relayout %o groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  return %r, %s : tensor<100x64xbf16>, tensor<100x64xbf16>
}

// The padding of an argument may be nonzero, so packing and padding again stays.
// CHECK-LABEL: func.func @pack_and_pad_of_argument
// CHECK-COUNT-2: relayout {{.*}} groups
// CHECK:         return
func.func @pack_and_pad_of_argument(%x: tensor<224x64xbf16, #row_padded>, %ends: tensor<8xi32>)
    -> tensor<224x64xbf16, #row_padded> {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  %r = fp8moe.relayout %p groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  return %r : tensor<224x64xbf16, #row_padded>
}

// CHECK-LABEL: func.func @pad_pack_pad
// CHECK-SAME:    (%[[X:.*]]: tensor<100x64xbf16>, %[[ENDS:.*]]: tensor<8xi32>)
// CHECK-NEXT:    %[[P:.*]] = fp8moe.relayout %[[X]] groups(%[[ENDS]] : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
// CHECK-NEXT:    return %[[P]]
func.func @pad_pack_pad(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<224x64xbf16, #col_padded> {
  %a = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %b = fp8moe.relayout %a groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  %c = fp8moe.relayout %b groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #col_padded>
  return %c : tensor<224x64xbf16, #col_padded>
}

// CHECK-LABEL: func.func @pad_pack_pad_otherwise
// CHECK-NEXT:    relayout %{{.*}} groups({{.*}}) : tensor<100x64xbf16> -> tensor<352x64xbf16
// CHECK-NEXT:    return
func.func @pad_pack_pad_otherwise(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<352x64xbf16, #pad32> {
  %a = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %b = fp8moe.relayout %a groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  %c = fp8moe.relayout %b groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<352x64xbf16, #pad32>
  return %c : tensor<352x64xbf16, #pad32>
}

// Packing to fewer rows cuts off groups, so all copies stay.
// CHECK-LABEL: func.func @pack_into_fewer_rows
// CHECK-COUNT-3: relayout {{.*}} groups
// CHECK:         return
func.func @pack_into_fewer_rows(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<224x64xbf16, #row_padded> {
  %a = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %b = fp8moe.relayout %a groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<98x64xbf16>
  %c = fp8moe.relayout %b groups(%ends : tensor<8xi32>) : tensor<98x64xbf16> -> tensor<224x64xbf16, #row_padded>
  return %c : tensor<224x64xbf16, #row_padded>
}

// With other offsets, each copy does something else, so all stay.
// CHECK-LABEL: func.func @other_groups
// CHECK-COUNT-3: relayout {{.*}} groups
// CHECK:         return
func.func @other_groups(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>)
    -> tensor<224x64xbf16, #row_padded> {
  %a = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %b = fp8moe.relayout %a groups(%other : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  %c = fp8moe.relayout %b groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  return %c : tensor<224x64xbf16, #row_padded>
}

// Copies of arguments before and after a regrouping become part of it.
// CHECK-LABEL: func.func @around_packing
// CHECK-NEXT:    relayout %{{.*}} groups({{.*}}) : tensor<224x64xbf16, {{.*}}<[0, 1], {{.*}} -> tensor<100x64xbf16, #fp8moe.strided<[1, 0]>>
// CHECK-NEXT:    return
func.func @around_packing(%x: tensor<224x64xbf16, #row_padded>, %ends: tensor<8xi32>) -> tensor<100x64xbf16, #col> {
  %a = fp8moe.relayout %x : tensor<224x64xbf16, #row_padded> -> tensor<224x64xbf16, #col_padded>
  %b = fp8moe.relayout %a groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #col_padded> -> tensor<100x64xbf16>
  %c = fp8moe.relayout %b : tensor<100x64xbf16> -> tensor<100x64xbf16, #col>
  return %c : tensor<100x64xbf16, #col>
}

// A transpose moves the padded dimension, and the copies vanish all the same.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT:     relayout
// CHECK:         return
func.func @transposed(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<64x224xf8E4M3FN, #row_padded_t> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
  %t = fp8moe.transpose %q [1, 0] : tensor<100x64xf8E4M3FN> -> tensor<64x100xf8E4M3FN, #col>
  %a = fp8moe.relayout %t groups(%ends : tensor<8xi32>)
      : tensor<64x100xf8E4M3FN, #col> -> tensor<64x224xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>>
  %b = fp8moe.relayout %a groups(%ends : tensor<8xi32>)
      : tensor<64x224xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>> -> tensor<64x100xf8E4M3FN>
  %c = fp8moe.relayout %b groups(%ends : tensor<8xi32>)
      : tensor<64x100xf8E4M3FN> -> tensor<64x224xf8E4M3FN, #row_padded_t>
  return %c : tensor<64x224xf8E4M3FN, #row_padded_t>
}

// Different chains of copies with equal results become one.
// CHECK-LABEL: func.func @equal_results
// CHECK-COUNT-1: relayout
// CHECK-NOT:     relayout
// CHECK:         return
func.func @equal_results(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<224x64xf8E4M3FN, #col_padded>, tensor<224x64xf8E4M3FN, #row_padded>, tensor<224x64xf8E4M3FN, #row_padded>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
  %a = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<100x64xf8E4M3FN> -> tensor<224x64xf8E4M3FN, #row_padded>
  %b = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<100x64xf8E4M3FN> -> tensor<224x64xf8E4M3FN, #col_padded>
  %c = fp8moe.relayout %b : tensor<224x64xf8E4M3FN, #col_padded> -> tensor<224x64xf8E4M3FN, #row_padded>
  return %b, %a, %c : tensor<224x64xf8E4M3FN, #col_padded>, tensor<224x64xf8E4M3FN, #row_padded>,
      tensor<224x64xf8E4M3FN, #row_padded>
}

// Block scales are written blocked, whatever copies were between.
// CHECK-LABEL: func.func @tiles
// CHECK-NEXT:    %{{.*}}, %[[S:.*]] = fp8moe.mx_quantize {{.*}} tensor<64x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
// CHECK-NEXT:    return %[[S]], %[[S]]
func.func @tiles(%x: tensor<64x64xbf16>) -> (tensor<64x2xf8E8M0FNU, #tiles>, tensor<64x2xf8E8M0FNU, #tiles>) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<64x2xf8E8M0FNU>
  %a = fp8moe.relayout %s : tensor<64x2xf8E8M0FNU> -> tensor<64x2xf8E8M0FNU, #tiles>
  %b = fp8moe.relayout %s : tensor<64x2xf8E8M0FNU> -> tensor<64x2xf8E8M0FNU, #col>
  %c = fp8moe.relayout %b : tensor<64x2xf8E8M0FNU, #col> -> tensor<64x2xf8E8M0FNU, #tiles>
  return %a, %c : tensor<64x2xf8E8M0FNU, #tiles>, tensor<64x2xf8E8M0FNU, #tiles>
}

// Block scales are written row-major if no user needs them blocked.
// CHECK-LABEL: func.func @no_tiles
// CHECK-NEXT:    %{{.*}}, %[[S:.*]] = fp8moe.mx_quantize {{.*}} tensor<64x2xf8E8M0FNU>
// CHECK-NEXT:    return %[[S]]
func.func @no_tiles(%x: tensor<64x64xbf16>) -> tensor<64x2xf8E8M0FNU> {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<64x2xf8E8M0FNU, #tiles>
  %a = fp8moe.relayout %s : tensor<64x2xf8E8M0FNU, #tiles> -> tensor<64x2xf8E8M0FNU, #col>
  %b = fp8moe.relayout %a : tensor<64x2xf8E8M0FNU, #col> -> tensor<64x2xf8E8M0FNU>
  return %b : tensor<64x2xf8E8M0FNU>
}

// Blocking scales and back vanishes for arguments, with padded groups, too.
// CHECK-LABEL: func.func @tiles_of_arguments
// CHECK-SAME:    (%[[X:.*]]: tensor<512x4xf8E8M0FNU, #fp8moe.strided{{.*}}>, %[[T:.*]]: tensor<512x4xf8E8M0FNU, #fp8moe.scale_blocked
// CHECK-NEXT:    %[[R:.*]] = fp8moe.relayout %[[X]] : tensor<512x4xf8E8M0FNU, {{.*}}> -> tensor<512x4xf8E8M0FNU, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>>
// CHECK-NEXT:    return %[[R]], %[[T]]
func.func @tiles_of_arguments(%x: tensor<512x4xf8E8M0FNU, #row_groups>, %t: tensor<512x4xf8E8M0FNU, #tile_groups>)
    -> (tensor<512x4xf8E8M0FNU, #col_groups>, tensor<512x4xf8E8M0FNU, #tile_groups>) {
  %a = fp8moe.relayout %x : tensor<512x4xf8E8M0FNU, #row_groups> -> tensor<512x4xf8E8M0FNU, #tile_groups>
  %b = fp8moe.relayout %a : tensor<512x4xf8E8M0FNU, #tile_groups> -> tensor<512x4xf8E8M0FNU, #col_groups>
  %c = fp8moe.relayout %t : tensor<512x4xf8E8M0FNU, #tile_groups> -> tensor<512x4xf8E8M0FNU, #col_groups>
  %d = fp8moe.relayout %c : tensor<512x4xf8E8M0FNU, #col_groups> -> tensor<512x4xf8E8M0FNU, #tile_groups>
  return %b, %d : tensor<512x4xf8E8M0FNU, #col_groups>, tensor<512x4xf8E8M0FNU, #tile_groups>
}

// A tensor is packed by one set of offsets and padded by another. Each keeps its own padding.
// CHECK-LABEL: func.func @nested_paddings
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<100x64xbf16>, %[[E:[a-z0-9]+]]: {{.*}}, %[[F:[a-z0-9]+]]: tensor<8xi32>
// CHECK-DAG:     %[[P:.*]] = fp8moe.relayout %[[X]] groups(%[[E]]
// CHECK-DAG:     %[[Y:.*]] = fp8moe.relayout %{{.*}} groups(%[[E]] {{.*}} -> tensor<100x64xbf16>
// CHECK-DAG:     fp8moe.relayout %[[Y]] groups(%[[F]]
// CHECK:         return
func.func @nested_paddings(%x: tensor<100x64xbf16>, %e: tensor<8xi32>, %f: tensor<8xi32>)
    -> (tensor<100x64xbf16>, tensor<224x64xbf16, #row_padded>) {
  %a = fp8moe.relayout %x groups(%e : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %b = fp8moe.relayout %x groups(%e : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<352x64xbf16, #pad32>
  %y = fp8moe.relayout %b groups(%e : tensor<8xi32>) : tensor<352x64xbf16, #pad32> -> tensor<100x64xbf16>
  %c = fp8moe.relayout %y groups(%f : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %z = fp8moe.relayout %c groups(%f : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  return %z, %a : tensor<100x64xbf16>, tensor<224x64xbf16, #row_padded>
}

// The quantization reads the packed tensor that is also returned, in another order.
// CHECK-LABEL: func.func @one_packing
// CHECK-NEXT:    %[[P:.*]] = fp8moe.relayout %arg0 groups
// CHECK-NEXT:    %[[X:.*]] = fp8moe.relayout %[[P]] groups{{.*}} -> tensor<100x64xbf16>
// CHECK-NEXT:    %[[Q:.*]], %[[S:.*]] = fp8moe.jagged_dynamic_quantize %[[X]]
// CHECK-NEXT:    return %[[X]], %[[Q]], %[[S]]
func.func @one_packing(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<100x64xbf16>, tensor<100x64xf8E4M3FN>, tensor<8x64xf32>) {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %a = fp8moe.relayout %p groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16, #col>
  // REMARK: [[@LINE+1]]:8: remark: [Passed] regrouping-merged {{.*}} another one of the same tensor holds the same values
  %b = fp8moe.relayout %p groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #row_padded> -> tensor<100x64xbf16>
  %q, %s = fp8moe.jagged_dynamic_quantize %a groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<100x64xbf16, #col> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
  return %b, %q, %s : tensor<100x64xbf16>, tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
}

// A copy of one padding equals the other padding: two copies remain, not three.
// CHECK-LABEL: func.func @copy_of_other_padding
// CHECK-COUNT-2: fp8moe.relayout
// CHECK-NOT:     fp8moe.relayout
// CHECK:         return
func.func @copy_of_other_padding(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<224x64xbf16, #row_padded>, tensor<224x64xbf16, #col_padded>, tensor<224x64xbf16, #row_padded>) {
  %a = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #row_padded>
  %b = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<100x64xbf16> -> tensor<224x64xbf16, #col_padded>
  %c = fp8moe.relayout %b : tensor<224x64xbf16, #col_padded> -> tensor<224x64xbf16, #row_padded>
  return %a, %b, %c : tensor<224x64xbf16, #row_padded>, tensor<224x64xbf16, #col_padded>, tensor<224x64xbf16, #row_padded>
}
}
