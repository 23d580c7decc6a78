// With jagged groups, each thread also keeps the block behind its tile in registers. The kernel
// must not spill, and its occupancy target must fit those registers.

// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s

#column_major = #fp8moe.strided<[1, 0]>
#tiles_of_groups = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

// CHECK: .amdhsa_private_segment_fixed_size 0
// CHECK: .vgpr_spill_count: 0
func.func @columns(%x: tensor<?x304xbf16>, %ends: tensor<5xi32>) -> tensor<?x304x!fp8moe.e4m3, #column_major> {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%ends : tensor<5xi32>)
      : tensor<?x304xbf16> -> tensor<?x304x!fp8moe.e4m3, #column_major>, tensor<304x?xf8E8M0FNU, #tiles_of_groups>
  return %q : tensor<?x304x!fp8moe.e4m3, #column_major>
}
