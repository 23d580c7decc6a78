// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-expand-mx-matmuls))" | FileCheck %s

// Hopper's matrix instructions take no block scales, so MX operands are dequantized and multiplied
// in bf16.

#columns = #fp8moe.strided<[0, 2, 1]>
#padded = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
#tiles = #fp8moe.scale_blocked<128x4>
#padded_columns = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @dense
  // CHECK: %[[X:.*]] = fp8moe.mx_dequantize %arg0 by %arg2 along 1
  // CHECK: %[[W:.*]] = fp8moe.mx_dequantize %arg1 by %arg3 along 0
  // CHECK: fp8moe.linear %[[X]], %[[W]] : tensor<256x128xbf16>, tensor<128x64xbf16> -> tensor<256x64xbf16>
  func.func @dense(%a: tensor<256x128xf8E4M3FN>, %b: tensor<128x64xf8E4M3FN>,
      %sa: tensor<256x4xf8E8M0FNU>, %sb: tensor<64x4xf8E8M0FNU>) -> tensor<256x64xbf16> {
    %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<256x4xf8E8M0FNU>, tensor<64x4xf8E8M0FNU>)
        : tensor<256x128xf8E4M3FN>, tensor<128x64xf8E4M3FN> -> tensor<256x64xbf16>
    return %y : tensor<256x64xbf16>
  }

  // The precision attribute says bf16, with the reason.
  // CHECK-LABEL: func.func @decided
  // CHECK: fp8moe.linear {{.*}} precision <bf16, "wq", forward, recipe = mxfp8, reason = "dequantized: no matrix instruction takes scales of blocks">
  func.func @decided(%a: tensor<256x128xf8E4M3FN>, %b: tensor<128x64xf8E4M3FN>,
      %sa: tensor<256x4xf8E8M0FNU>, %sb: tensor<64x4xf8E8M0FNU>) -> tensor<256x64xbf16> {
    %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<256x4xf8E8M0FNU>, tensor<64x4xf8E8M0FNU>)
        precision <fp8, "wq", forward, recipe = mxfp8>
        : tensor<256x128xf8E4M3FN>, tensor<128x64xf8E4M3FN> -> tensor<256x64xbf16>
    return %y : tensor<256x64xbf16>
  }

  // Scales of padded groups need the offsets to be dequantized. Operands keep their layouts, and
  // the addend stays.
  // CHECK-LABEL: func.func @forward
  // CHECK: %[[X:.*]] = fp8moe.mx_dequantize %arg0 by %arg3 along 1 groups(%arg2 : tensor<8xi32>)
  // CHECK: %[[W:.*]] = fp8moe.mx_dequantize %arg1 by %arg4 along 1 : {{.*}} -> tensor<8x256x64xbf16, #{{.*}}>
  // CHECK: fp8moe.grouped_matmul %[[X]], %[[W]] groups(%arg2 : tensor<8xi32>) accumulate(%arg5 : tensor<1000x64xf32>)
  func.func @forward(%a: tensor<1000x256xf8E4M3FN>, %b: tensor<8x256x64xf8E4M3FN, #columns>, %ends: tensor<8xi32>,
      %sa: tensor<2048x8xf8E8M0FNU, #padded>, %sb: tensor<8x64x8xf8E8M0FNU, #tiles>, %c: tensor<1000x64xf32>)
      -> tensor<1000x64xf32> {
    %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<2048x8xf8E8M0FNU, #padded>, tensor<8x64x8xf8E8M0FNU, #tiles>)
        accumulate(%c : tensor<1000x64xf32>)
        : tensor<1000x256xf8E4M3FN>, tensor<8x256x64xf8E4M3FN, #columns> -> tensor<1000x64xf32>
    return %y : tensor<1000x64xf32>
  }

  // mx_dequantize takes groups of rows only. The first operand of wgrad is therefore transposed
  // before and after.
  // CHECK-LABEL: func.func @weight_gradient
  // CHECK: %[[T:.*]] = fp8moe.transpose %arg0 [1, 0]
  // CHECK: %[[D:.*]] = fp8moe.mx_dequantize %[[T]] by %arg3 along 0 groups(%arg2 : tensor<8xi32>)
  // CHECK: %[[A:.*]] = fp8moe.transpose %[[D]] [1, 0]
  // CHECK: %[[B:.*]] = fp8moe.mx_dequantize %arg1 by %arg4 along 0 groups(%arg2 : tensor<8xi32>)
  // CHECK: fp8moe.grouped_matmul %[[A]], %[[B]] groups
  func.func @weight_gradient(%a: tensor<64x?xf8E4M3FN>, %b: tensor<?x96xf8E4M3FN>, %ends: tensor<8xi32>,
      %sa: tensor<64x?xf8E8M0FNU, #padded_columns>, %sb: tensor<96x?xf8E8M0FNU, #padded_columns>) -> tensor<8x64x96xbf16> {
    %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<64x?xf8E8M0FNU, #padded_columns>, tensor<96x?xf8E8M0FNU, #padded_columns>)
        : tensor<64x?xf8E4M3FN>, tensor<?x96xf8E4M3FN> -> tensor<8x64x96xbf16>
    return %y : tensor<8x64x96xbf16>
  }
}

// -----

// gfx950's matrix instructions take block scales, so the matmul stays.

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  // CHECK-LABEL: func.func @scaled_instructions
  // CHECK-NOT: mx_dequantize
  // CHECK: fp8moe.linear {{.*}} scales
  func.func @scaled_instructions(%a: tensor<256x128xf8E4M3FN>, %b: tensor<128x64xf8E4M3FN>,
      %sa: tensor<256x4xf8E8M0FNU>, %sb: tensor<64x4xf8E8M0FNU>) -> tensor<256x64xbf16> {
    %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<256x4xf8E8M0FNU>, tensor<64x4xf8E8M0FNU>)
        : tensor<256x128xf8E4M3FN>, tensor<128x64xf8E4M3FN> -> tensor<256x64xbf16>
    return %y : tensor<256x64xbf16>
  }
}
