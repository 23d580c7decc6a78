// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu)" | FileCheck %s

// Blocked scales are a flat buffer of bytes, as an output or as workspace.

#blocked = #fp8moe.scale_blocked<128x4>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: fp8moe_plan.program @returned
  // CHECK:         %[[S:.*]] = fp8moe_plan.output "result1" sizes(%{{.*}}) align 1 : memref<?xf8E8M0FNU>
  // CHECK:         fp8moe_plan.launch {{.*}} args(%{{.*}}, %{{.*}}, %[[S]], %{{.*}})
  func.func @returned(%x: tensor<?x320xbf16>) -> (tensor<?x320xf8E4M3FN>, tensor<?x10xf8E8M0FNU, #blocked>) {
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<?x320xbf16>
        -> tensor<?x320xf8E4M3FN>, tensor<?x10xf8E8M0FNU, #blocked>
    return %q, %s : tensor<?x320xf8E4M3FN>, tensor<?x10xf8E8M0FNU, #blocked>
  }

  // 128 rows of 320 columns have three tiles of 512 bytes.
  // CHECK-LABEL: fp8moe_plan.program @unused
  // CHECK:         %[[ROWS:.*]] = arith.ceildivsi %{{.*}}, %c128
  // CHECK:         %[[TILES:.*]] = arith.muli %[[ROWS]], %c3
  // CHECK:         %[[BYTES:.*]] = arith.muli %[[TILES]], %c512
  // CHECK:         fp8moe_plan.workspace sizes(%[[BYTES]]) align 256 : memref<?xf8E8M0FNU>
  func.func @unused(%x: tensor<?x320xbf16>) -> tensor<?x320xf8E4M3FN> {
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<?x320xbf16>
        -> tensor<?x320xf8E4M3FN>, tensor<?x10xf8E8M0FNU, #blocked>
    return %q : tensor<?x320xf8E4M3FN>
  }
}

// -----

// Returning blocked scales twice would need a copy.

#blocked = #fp8moe.scale_blocked<128x4>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @twice(%x: tensor<?x320xbf16>)
      -> (tensor<?x10xf8E8M0FNU, #blocked>, tensor<?x10xf8E8M0FNU, #blocked>) {
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<?x320xbf16>
        -> tensor<?x320xf8E4M3FN>, tensor<?x10xf8E8M0FNU, #blocked>
    // expected-error@+1 {{result #1 would be a copy of tiled scales, 'tensor<?x10xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>', which target sm_90a does not make; return once what an operation of the function writes}}
    return %s, %s : tensor<?x10xf8E8M0FNU, #blocked>, tensor<?x10xf8E8M0FNU, #blocked>
  }
}
