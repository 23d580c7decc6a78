// Device memory with mock drivers that launch nothing: outputs keep their fill pattern, 0xA5.

// RUN: rm -rf %t && fp8moe-compile %s --target=sm_90a --target=gfx942 -o %t
// RUN: env FP8MOE_CUDA_DRIVER=%fp8moe_lib_dir/libfp8moe_mock_cuda.so fp8moe-run %t/sm_90a --device=cuda:0 --random=1 --tokens=2 --outputs=%t/cuda.safetensors | FileCheck %s -DDEVICE=cuda:0
// RUN: od -An -tx1 %t/cuda.safetensors | tail -n 2 | FileCheck %s --check-prefix=POISON
// RUN: env FP8MOE_HIP_RUNTIME=%fp8moe_lib_dir/libfp8moe_mock_hip.so fp8moe-run %t/gfx942 --device=hip:0 --random=1 --tokens=2 | FileCheck %s -DDEVICE=hip:0
// RUN: env FP8MOE_CUDA_DRIVER=/no/such/driver.so not fp8moe-run %t/sm_90a --device=cuda:0 --random=1 --tokens=2 2>&1 | FileCheck %s --check-prefix=DRIVER

// CHECK: input x BF16 2x64
// CHECK: output q F8_E4M3
// CHECK: quantize ran on [[DEVICE]]
// POISON: a5 a5 a5 a5
// DRIVER: error: {{.*}}/no/such/driver.so
func.func @quantize(%x: tensor<?x64xbf16> {fp8moe.name = "x"})
    -> (tensor<?x64x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "scales"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
