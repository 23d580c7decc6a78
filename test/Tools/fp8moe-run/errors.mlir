// Invalid input ends with a message and a non-zero exit code.

// RUN: rm -rf %t && fp8moe-compile %s --target=cpu -o %t
// RUN: fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --save-inputs=%t.safetensors

// RUN: not fp8moe-run %t/cpu --random=1 --tokens=3 2>&1 | FileCheck %s --check-prefix=PROGRAMS
// PROGRAMS: error: the artifact has 2 programs; choose one with --program=NAME: first, second

// RUN: not fp8moe-run %t/cpu --program=third --random=1 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: there is no program 'third'; the artifact has 'first', 'second'

// RUN: not fp8moe-run %t/cpu --program=first 2>&1 | FileCheck %s --check-prefix=INPUTS
// INPUTS: error: give the inputs with --inputs=FILE, with --random=SEED, or with both: what the file lacks is random

// RUN: not fp8moe-run %t/cpu --program=first --random=1 2>&1 | FileCheck %s --check-prefix=TOKENS
// TOKENS: error: input 'x' is ?x8: give the extents with --tokens=N (for every '?') or --shape=x=AxB

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --shape x=3x9 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: error: input 'x' is F32 3x9, expected F32 ?x8

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --shape x=3,8 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: error: --shape: 'x=3,8' is not of the form NAME=AxB, for example grad=4096x2048

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --shape x=3x 2>&1 | FileCheck %s --check-prefix=OPEN
// OPEN: error: --shape: 'x=3x' is not of the form NAME=AxB, for example grad=4096x2048
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --shape x=3x8 --shape x=4x8 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: --shape: input 'x' is given twice

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --shape y=3x8 2>&1 | FileCheck %s --check-prefix=NOINPUT
// NOINPUT: error: --shape: the program has no input 'y'

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=-3 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: for the --tokens option: expects an integer from 0 to 9223372036854775807, found '-3'
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --repeat=0 2>&1 | FileCheck %s --check-prefix=REPEAT
// REPEAT: for the --repeat option: expects an integer from 1 to 4294967295, found '0'
// RUN: not fp8moe-run %t/cpu --program=first --random=-1 --tokens=3 2>&1 | FileCheck %s --check-prefix=SEED
// SEED: for the --random option: expects an integer from 0 to 18446744073709551615, found '-1'
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=4000000000000000000 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: error: the inputs need {{[0-9]+}} bytes, but this machine has {{[0-9]+}} bytes of memory; give smaller --tokens or --shape
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --outputs=/dev/full 2>&1 | FileCheck %s --check-prefix=FULL
// FULL: error: /dev/full: No space left on device

// RUN: not fp8moe-run %t --random=1 2>&1 | FileCheck %s --check-prefix=ABOVE
// ABOVE: error: '{{.*}}' is no artifact, but has one; pass {{.*}}/cpu
// RUN: rm -rf %t.empty && mkdir %t.empty
// RUN: not fp8moe-run %t.empty --random=1 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: '{{.*}}.empty' is no artifact, as it has no manifest.json; pass a folder that fp8moe-compile -o wrote for one target

// RUN: sed 's/\[3,8\]/[8,3]/' %t.safetensors > %t.other
// RUN: not fp8moe-run %t/cpu --program=first --inputs=%t.other 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: fp8moe-run: error: {{.*}}.other: input 'x' is F32 8x3, expected F32 ?x8

// RUN: head -c 100 %t.safetensors > %t.truncated
// RUN: not fp8moe-run %t/cpu --program=first --inputs=%t.truncated 2>&1 | FileCheck %s --check-prefix=TRUNCATED
// TRUNCATED: error: {{.*}}.truncated: {{.*}}bytes

// RUN: not fp8moe-run %t/cpu --program=second --inputs=%t.safetensors 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: {{.*}}.safetensors: no tensor 'y', which the program reads; the file has: x

// RUN: not fp8moe-run %t/cpu --program=first --inputs=%t.nothing 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error: {{.*}}.nothing: No such file or directory

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --outputs=/dev/null/out 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: error: /dev/null/out: Not a directory

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --outputs=- 2>&1 | FileCheck %s --check-prefix=STDOUT
// STDOUT: error: '-' is no file; --outputs and --save-inputs write safetensors to one
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --outputs=%t/one --save-inputs=%t/./one 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: error: --outputs and --save-inputs are one file, '{{.*}}/one'
// RUN: echo > %t/one && ln -f %t/one %t/link
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --outputs=%t/one --save-inputs=%t/link 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --shape x 2>&1 | FileCheck %s --check-prefix=NO-EQUALS
// NO-EQUALS: error: --shape: 'x' is not of the form NAME=AxB, for example grad=4096x2048
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --device=gpu 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: unknown device 'gpu'
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --device=none 2>&1 | FileCheck %s --check-prefix=NODEVICE
// NODEVICE: error: --device=none has no memory to run in; --describe prints the launches
// RUN: not fp8moe-run %s --program=first --random=1 --tokens=3 --target=cpu,sm_90a 2>&1 | FileCheck %s --check-prefix=CHIPS
// CHIPS: error: --target: 'cpu,sm_90a' names several chips, but a program runs on one

// RUN: not fp8moe-run %s --program=first --random=1 --tokens=3 --device=cuda:0 2>&1 | FileCheck %s --check-prefix=IR
// IR: error: IR for --device=cuda:0 needs --target=CHIP, such as sm_90a

// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 --target=sm_90a 2>&1 | FileCheck %s --check-prefix=COMPILED
// COMPILED: error: --target: the artifact is compiled already; it belongs to IR

// RUN: echo damaged >> %t/cpu/kernels.so
// RUN: not fp8moe-run %t/cpu --program=first --random=1 --tokens=3 2>&1 | FileCheck %s --check-prefix=DAMAGED
// DAMAGED: error: {{.*}}kernels.so

// RUN: echo "module {" > %t.mlir
// RUN: not fp8moe-run %t.mlir --random=1 2>&1 | FileCheck %s --check-prefix=MALFORMED
// MALFORMED: {{.*}}.mlir:{{[0-9]+}}:{{[0-9]+}}: error:

#column_major = #fp8moe.strided<[1, 0]>
func.func @first(%x: tensor<?x8xf32, #column_major> {fp8moe.name = "x"}) -> tensor<?x8xf32> {
  %c = fp8moe.contiguous %x : tensor<?x8xf32, #column_major> -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}
func.func @second(%y: tensor<?x8xf32, #column_major> {fp8moe.name = "y"}) -> tensor<?x8xf32> {
  %c = fp8moe.contiguous %y : tensor<?x8xf32, #column_major> -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}
