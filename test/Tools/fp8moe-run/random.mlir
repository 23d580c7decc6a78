// fp8moe-run compiles IR for the CPU and runs it. Results are equal for IR and artifacts, and for
// random and saved inputs.

// RUN: fp8moe-run %s --random=7 --tokens=5 --save-inputs=%t.in.safetensors --outputs=%t.out.safetensors | FileCheck %s
// RUN: fp8moe-run %s --inputs=%t.in.safetensors --outputs=%t.again.safetensors
// RUN: cmp %t.out.safetensors %t.again.safetensors
// RUN: rm -rf %t && fp8moe-compile %s --target=cpu -o %t
// RUN: fp8moe-run %t/cpu --random=7 --shape x=5x64 --repeat=3 --outputs=%t.again.safetensors
// RUN: cmp %t.out.safetensors %t.again.safetensors

// Tensors without rows are legal.
// RUN: fp8moe-run %s --random=7 --tokens=0 | FileCheck %s --check-prefix=EMPTY
// EMPTY: output q BF16 0x64

// CHECK: input x BF16 5x64
// CHECK-NEXT: output q BF16 5x64
// CHECK-NEXT: copy ran on cpu in {{[0-9.]+}} ms
func.func @copy(%x: tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> {fp8moe.name = "x"})
    -> (tensor<?x64xbf16> {fp8moe.name = "q"}) {
  %c = fp8moe.contiguous %x : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> -> tensor<?x64xbf16>
  return %c : tensor<?x64xbf16>
}
