// An output that cannot be written is an error that names its path.

// RUN: not fp8moe-compile %s --target=cpu -o /dev/null/out 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: error: {{.*}}/dev/null/out

// RUN: not fp8moe-compile %s --target=cpu --emit=mlir -o /dev/null/out.mlir 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: error: cannot open output file '/dev/null/out.mlir': Not a directory

// RUN: not fp8moe-compile %s --target=cpu,gfx942 --emit=mlir 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: {{^}}{{[^:]*}}output-errors.mlir: error: --emit shows one target, but there are 2; name one with --target

// RUN: not fp8moe-compile %s --target=gfx942 --emit=ptx 2>&1 | FileCheck %s --check-prefix=STAGE
// STAGE: error: {{.*}}gfx942

// --emit may overwrite its input file. After an error the file is unchanged.
// RUN: cp %s %t.mlir && not fp8moe-compile %t.mlir --target=gfx942 --emit=ptx -o %t.mlir 2>/dev/null
// RUN: diff %s %t.mlir
// RUN: fp8moe-compile %t.mlir --target=cpu --emit=tensor -o %t.mlir && FileCheck %s --check-prefix=IN-PLACE < %t.mlir
// IN-PLACE: func.func @copy

func.func @copy(%x: tensor<8x16xf32, #fp8moe.strided<[1, 0]>>) -> tensor<8x16xf32> {
  %c = fp8moe.contiguous %x : tensor<8x16xf32, #fp8moe.strided<[1, 0]>> -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
