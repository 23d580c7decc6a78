// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

fp8moe_plan.program @p {
  // expected-error@+1 {{'memref.alloc' op is not allowed in a program: a manifest can only express operations of fp8moe_plan and arithmetic on index and i1 values}}
  %x = memref.alloc() : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{'arith.constant' op is not allowed in a program}}
  %c = arith.constant 1.0 : f32
}

// -----

fp8moe_plan.program @p {
  %a = arith.constant 1 : index
  // expected-error@+1 {{'arith.andi' op is not allowed in a program}}
  %b = arith.andi %a, %a : index
}

// -----

// A program cannot compute which buffer a kernel gets.
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  %t = arith.constant true
  // expected-error@+1 {{'arith.select' op is not allowed in a program}}
  %y = arith.select %t, %x, %x : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-note@+1 {{the other buffer is here}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{'fp8moe_plan.output' op has the name 'x' of another buffer of this program}}
  %y = fp8moe_plan.output "x" align 4 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has an empty name; callers find it by its name}}
  %x = fp8moe_plan.input "" align 4 : memref<8xf32>
}

// -----

func.func private @entry()

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  // expected-note@+1 {{first launch is here}}
  fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
  // expected-error@+1 {{'fp8moe_plan.input' op 'x' is declared after a launch; declare all inputs and outputs before the first launch}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has 17 dimensions; a manifest describes at most 16; merge some}}
  %x = fp8moe_plan.input "x" align 4 : memref<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has elements of type 'i4', which a manifest has no name for; store them as an integer or float type of 8 to 64 bits}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xi4>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has memory space 3 : i64; buffers are in the device's global memory, leave the space out}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32, 3 : i64>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has layout affine_map<(d0) -> (d0 floordiv 2)>; expected none or strided<[...]>}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32, affine_map<(d0) -> (d0 floordiv 2)>>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has an offset in its layout; buffers start at their first element}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32, strided<[1], offset: ?>>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has the negative stride -1}}
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32, strided<[-1]>>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has alignment 12; expected a power of two}}
  %x = fp8moe_plan.input "x" align 12 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has alignment -4; expected a power of two}}
  %x = fp8moe_plan.workspace align -4 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has alignment 2, less than one element (4 bytes)}}
  %x = fp8moe_plan.input "x" align 2 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{'fp8moe_plan.output' op has 0 sizes, but its type has 1 dynamic extents}}
  %x = fp8moe_plan.output "x" align 4 : memref<?xf32>
}

// -----

// An identity layout takes no stride operands, as its strides follow from its sizes.
fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{'fp8moe_plan.workspace' op has 1 strides, but its type has 0 dynamic strides}}
  %x = fp8moe_plan.workspace sizes(%c1) strides(%c1) align 4 : memref<8x?xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{'fp8moe_plan.dim' op asks for dimension 1 of a buffer of rank 1}}
  %d = fp8moe_plan.dim %x, 1 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{'fp8moe_plan.stride' op asks for dimension -1 of a buffer of rank 1}}
  %d = fp8moe_plan.stride %x, -1 : memref<8xf32>
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{'fp8moe_plan.launch' op launches '@kernels::@missing', which is not in the module}}
  fp8moe_plan.launch @kernels::@missing grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 args(%x, %c1) : memref<8xf32>, index
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{launches '@kernels', which is no gpu.func, llvm.func or func.func}}
  fp8moe_plan.launch @kernels grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 args(%x, %c1) : memref<8xf32>, index
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr, %m: i64) {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{launches '@kernels::@k', which is not a kernel; mark it 'kernel'}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 args(%x, %c1) : memref<8xf32>, index
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{has block size 0 along y; expected at least 1}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 0, 1) shared 0 args(%x, %c1) : memref<8xf32>, index
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{has block size 128 along x, but '@kernels::@k' is compiled for 256}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(128, 1, 1) shared 0 args(%x, %c1) : memref<8xf32>, index
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{asks for -1 bytes of shared memory}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared -1 args(%x, %c1) : memref<8xf32>, index
}

// -----

gpu.module @kernels {
  // expected-note@+1 {{the kernel is here}}
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{passes 1 arguments, but '@kernels::@k' has 2 parameters}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 args(%x) : memref<8xf32>
}

// -----

gpu.module @kernels {
  // expected-note@+1 {{the kernel is here}}
  gpu.func @k(%x: !llvm.ptr, %m: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{passes 'index' as argument 0, but that parameter of '@kernels::@k' is '!llvm.ptr'; expected i64}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 args(%c1, %x) : index, memref<8xf32>
}

// -----

gpu.module @kernels {
  // expected-note@+1 {{the kernel is here}}
  gpu.func @k(%x: !llvm.ptr, %m: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
}

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{passes 'index' as argument 1, but that parameter of '@kernels::@k' is 'i32'; expected i64}}
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared 0 args(%x, %c1) : memref<8xf32>, index
}

// -----

fp8moe_plan.program @p {
  // expected-error@+1 {{has a name that is not UTF-8 or has a null character, which a manifest cannot hold}}
  %x = fp8moe_plan.input "\FF" align 4 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  %true = arith.constant true
  // expected-error@+1 {{has a message that is not UTF-8 or has a null character, which a manifest cannot hold}}
  fp8moe_plan.require %true, "\FF"
}

// -----

fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{has a kernel's name that is not UTF-8 or has a null character, which a manifest cannot hold}}
  fp8moe_plan.launch @"\FF" grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.output "x" align 4 : memref<8xf32>
  // expected-error@+1 {{may overwrite an input of the program only}}
  %y = fp8moe_plan.output "y" may_overwrite(%x : memref<8xf32>) align 4 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{may overwrite an input of its own type only, found 'memref<8xf32>'}}
  %y = fp8moe_plan.output "y" may_overwrite(%x : memref<8xf32>) align 4 : memref<4xf32>
}

// -----

fp8moe_plan.program @p {
^bb0(%x: memref<8xf32>):
  // expected-error@+1 {{may overwrite an input of the program only}}
  %y = fp8moe_plan.output "y" may_overwrite(%x : memref<8xf32>) align 4 : memref<8xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // expected-error@+1 {{may overwrite 'x', as another output may}}
  %y = fp8moe_plan.output "y" may_overwrite(%x : memref<8xf32>) align 4 : memref<8xf32>
  %z = fp8moe_plan.output "z" may_overwrite(%x : memref<8xf32>) align 4 : memref<8xf32>
}
