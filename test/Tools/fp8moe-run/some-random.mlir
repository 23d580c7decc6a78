// With a seed, tensors that the input file lacks are random.

// RUN: rm -rf %t && fp8moe-compile %s --target=cpu -o %t
// RUN: fp8moe-run %t/cpu --program=one --random=3 --tokens=5 --save-inputs=%t.x.safetensors --outputs=%t.one.safetensors
// RUN: fp8moe-run %t/cpu --program=two --inputs=%t.x.safetensors --random=4 --tokens=2 --save-inputs=%t.xy.safetensors | FileCheck %s
// CHECK: input x F32 5x64
// CHECK-NEXT: input y F32 2x64

// A tensor of the file is used as it is. Another seed gives other random tensors.
// RUN: fp8moe-run %t/cpu --program=one --inputs=%t.xy.safetensors --outputs=%t.again.safetensors
// RUN: cmp %t.one.safetensors %t.again.safetensors
// RUN: fp8moe-run %t/cpu --program=one --random=4 --tokens=5 --outputs=%t.again.safetensors
// RUN: not cmp -s %t.one.safetensors %t.again.safetensors

// RUN: not fp8moe-run %t/cpu --program=two --inputs=%t.x.safetensors 2>&1 | FileCheck %s --check-prefix=LACKS
// LACKS: error: {{.*}}.x.safetensors: no tensor 'y', which the program reads; the file has: x (with --random=SEED, what it lacks is random)
// RUN: not fp8moe-run %t/cpu --program=other --inputs=%t.x.safetensors --random=1 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}.x.safetensors: no tensor that the program reads; the file has: x
// RUN: not fp8moe-run %t/cpu --program=two --inputs=%t.x.safetensors --random=1 --tokens=2 --shape x=5x64 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: error: --shape: input 'x' is of the file of --inputs, which has its shape

#col = #fp8moe.strided<[1, 0]>

func.func @one(%x: tensor<?x64xf32, #col> {fp8moe.name = "x"}) -> (tensor<?x64xf32> {fp8moe.name = "q"}) {
  %c = fp8moe.contiguous %x : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  return %c : tensor<?x64xf32>
}

func.func @two(%x: tensor<?x64xf32, #col> {fp8moe.name = "x"}, %y: tensor<?x64xf32, #col> {fp8moe.name = "y"})
    -> (tensor<?x64xf32> {fp8moe.name = "q"}, tensor<?x64xf32> {fp8moe.name = "r"}) {
  %c = fp8moe.contiguous %x : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  %d = fp8moe.contiguous %y : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  return %c, %d : tensor<?x64xf32>, tensor<?x64xf32>
}

func.func @other(%z: tensor<?x64xf32, #col> {fp8moe.name = "z"}) -> (tensor<?x64xf32> {fp8moe.name = "q"}) {
  %c = fp8moe.contiguous %z : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  return %c : tensor<?x64xf32>
}
