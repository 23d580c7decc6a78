// --describe shows the launches of an artifact without needing its device.

// RUN: rm -rf %t && fp8moe-compile %s --target=gfx942 -o %t
// RUN: fp8moe-run %t/gfx942 --random=1 --tokens=100 --describe | FileCheck %s
// RUN: not fp8moe-run %t/gfx942 --random=1 --tokens=100 2>&1 | FileCheck %s --check-prefix=DEVICE

// --describe allocates no tensors: these sizes would not fit any memory.
// RUN: fp8moe-run %t/gfx942 --random=1 --tokens=1000000000000 --describe | FileCheck %s

// CHECK: "program": "quantize"
// CHECK: "chip": "gfx942"
// CHECK: "launches"
// CHECK: "block"
// DEVICE: error: {{.*}}gfx942
func.func @quantize(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
