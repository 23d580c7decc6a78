// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s "--implicit-check-not=nvvm."

// The single-pass kernel reads its input once, by TMA. The host launches it if its conditions hold,
// otherwise the two-pass kernel.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @jagged(%x: tensor<?x?xbf16>, %ends: tensor<?xi32>)
      -> (tensor<?x?xf8E4M3FN, #col>, tensor<?x?xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]
        rounding pow2 tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>, #fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x?xbf16> -> tensor<?x?xf8E4M3FN, #col>, tensor<?x?xf32>
    return %q, %s : tensor<?x?xf8E4M3FN, #col>, tensor<?x?xf32>
  }
}

// CHECK:       llvm.mlir.global external @[[SHARED:.*]]() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK-LABEL: gpu.func @quantize_single_pass_outer_0
// CHECK-SAME:    (%[[TILE:[a-z0-9]+]]: !llvm.ptr {fp8moe_plan.tensor_map}, %[[BOX:[a-z0-9]+]]: !llvm.ptr {fp8moe_plan.tensor_map}, %[[SHARE:[a-z0-9]+]]: !llvm.ptr {fp8moe_plan.tensor_map}, %{{.*}}: !llvm.ptr,
// CHECK-SAME:    known_block_size = array<i32: 512, 1, 1>
// Signals between blocks are atomic accesses, never ordinary or volatile ones.
// CHECK-NOT:     volatile
// The kernel lets the next one begin. It accesses global memory only after earlier kernels have
// ended.
// CHECK:         fp8moe_kernel.launch_dependents
// CHECK-NOT:     llvm.{{load|store}} {{.*}}!llvm.ptr<1>
// Before that, the producer only prefetches the offsets of the groups.
// CHECK:         %[[PRODUCER:.*]] = arith.cmpi eq, %{{.*}}, %c15_i32
// CHECK-NEXT:    scf.if %[[PRODUCER]]
// CHECK:           %[[AT:.*]] = arith.muli %{{.*}}, %c32_i32
// CHECK-NEXT:      %[[BYTES:.*]] = arith.muli %{{.*}}, %c4_i32
// CHECK-NEXT:      arith.cmpi slt, %[[AT]], %[[BYTES]]
// CHECK-NEXT:      scf.if
// CHECK:             fp8moe_kernel.sector_prefetch
// CHECK:           fp8moe_kernel.subgroup_barrier
// CHECK-NOT:     llvm.{{load|store}} {{.*}}!llvm.ptr<1>
// CHECK:         fp8moe_kernel.wait_for_prerequisites
// The grid-wide barrier begins: each block reads the release flag and its own word, and the first
// block reads all words.
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") monotonic
// CHECK-COUNT-2: fp8moe_kernel.load_words %
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") monotonic
// Meanwhile one warp initialises barriers, for which the producer waits.
// CHECK-NOT:     llvm.{{load|store}} {{.*}}!llvm.ptr<1>
// CHECK:         fp8moe_kernel.mbarrier_init %
// CHECK:         fp8moe_kernel.mbarrier_init_fence
// CHECK:         fp8moe_kernel.subgroup_barrier
// CHECK:         fp8moe_kernel.named_barrier_arrive %c1_i32, 64
// CHECK-NOT:     llvm.{{load|store}} {{.*}}!llvm.ptr<1>
// CHECK:         fp8moe_kernel.wait_for_prerequisites
// Every block zeroes its share of the workspace.
// CHECK:         scf.for
// CHECK:           llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK:         fp8moe_kernel.named_barrier %c2_i32, 480

// Role "produce". It prefetches the first rows of the tensor and of interleaved panels to L2, then
// copies whole and partial tiles. Up to twelve tiles per panel have spans of one tile.
// CHECK:         fp8moe_kernel.set_registers decrease 120
// CHECK-NOT:     llvm.{{load|store}} {{.*}}!llvm.ptr<1>
// CHECK-NOT:     {{tensor|bulk}}_load
// CHECK:         fp8moe_kernel.wait_for_prerequisites
// CHECK:         fp8moe_kernel.tensor_prefetch %[[SHARE]][%{{.*}}, %{{.*}}]
// CHECK:         arith.cmpi sle, %{{.*}}, %c12_i32
// CHECK:         arith.select %{{.*}}, %c1_i32, %c2_i32
// CHECK:         fp8moe_kernel.ballot
// CHECK:         fp8moe_kernel.tensor_prefetch %[[SHARE]][%{{.*}}, %{{.*}}]
// CHECK:         fp8moe_kernel.arrive_expect_tx
// CHECK:         fp8moe_kernel.tensor_load {{.*}} from %[[BOX]][%{{.*}}, %{{.*}}]
// CHECK:         fp8moe_kernel.tensor_load {{.*}} from %[[TILE]][%{{.*}}, %{{.*}}]
// CHECK:         scf.for
// CHECK:           fp8moe_kernel.tensor_load {{.*}} from %[[BOX]][%{{.*}}, %{{.*}}]

// Role "scale" ends the grid-wide barrier. The first block waits until each word has changed
// (acquire) and then releases the others. These change their words and poll for the release.
// Then it polls until all partial maxima are published.
// CHECK-COUNT-2: fp8moe_kernel.load_words acquire 
// CHECK:         fp8moe_kernel.subgroup_barrier
// CHECK:         llvm.fence syncscope("device") acq_rel
// CHECK:         llvm.store %{{.*}} atomic syncscope("device") monotonic
// CHECK:         llvm.fence syncscope("device") acq_rel
// CHECK:         scf.while
// CHECK:         llvm.store %{{.*}} atomic syncscope("device") monotonic
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") acquire
// CHECK:         arith.addi %{{.*}}, %c1_i32
// CHECK:         fp8moe_kernel.load_words %
// CHECK:         fp8moe_kernel.vote_any
// With more than twelve blocks, every twelfth one is a relay, which publishes the largest value
// that it has read.
// CHECK:         arith.remui %{{.*}}, %c12
// CHECK:         fp8moe_kernel.vote_any
// CHECK-COUNT-4: llvm.store %{{.*}} atomic syncscope("device") monotonic
// CHECK:         fp8moe_kernel.vote_any

// Role "measure": each thread loads its part of a stage to registers and releases the stage.
// Published words have their sign bits set, which marks them as present.
// CHECK:         fp8moe_kernel.set_registers decrease 104
// CHECK:         fp8moe_kernel.wait_parity
// CHECK-COUNT-8: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         fp8moe_kernel.async_proxy_fence
// CHECK-NOT:     scf.if
// CHECK:         fp8moe_kernel.arrive %
// CHECK:         arith.maxui %{{.*}} : vector<8xi16>
// CHECK:         arith.ori %{{.*}}, %c-2147450880_i32
// CHECK:         llvm.store %{{.*}} atomic syncscope("device") monotonic {alignment = 4 : i64} : i32, !llvm.ptr<1>

// Role "convert": a warp converts its part of a tile while other tiles wait for scales. It
// multiplies two elements at a time and transposes bytes. Whole 16-byte vectors are stored at once,
// ends in smaller parts.
// CHECK:         fp8moe_kernel.set_registers increase 144
// CHECK:         scf.while {{.*}}: (i1, i32, {{.*}}vector<2xi32>
// A thread loads 16 rows of its cell, and words of the four rows above.
// CHECK-COUNT-16: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xi32>
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> vector<1xi32>
// CHECK:         fp8moe_kernel.async_proxy_fence
// CHECK-NOT:     scf.if
// CHECK:         fp8moe_kernel.arrive %
// Products have two variants: with rows of the previous segment, and without.
// CHECK-COUNT-16: arith.mulf %{{.*}} : vector<4xbf16>
// CHECK-COUNT-16: fp8moe_kernel.opaque {{.*}} : vector<2xi32>
// CHECK-COUNT-16: arith.mulf %{{.*}} : vector<4xbf16>
// CHECK:         fp8moe_kernel.pack_fp8_pair
// CHECK:         fp8moe_kernel.permute_bytes
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>

// Unaligned columns are staged in shared memory behind the rows above them. Five words are then
// shifted to four aligned ones.
// CHECK:         fp8moe_kernel.subgroup_barrier
// CHECK-COUNT-8: llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<3>
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         fp8moe_kernel.subgroup_barrier
// CHECK-COUNT-5: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-4: llvm.intr.fshr
// CHECK:         llvm.intr.ptrmask
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// In tiles with a boundary of a segment, shifting comes before the decision what is stored. Each
// lane stores one end of one column in parts, or byte by byte if the other end is near.
// CHECK:         } else {
// CHECK-NOT:     scf.if
// CHECK-COUNT-4: fp8moe_kernel.opaque {{.*}} : vector<4xi32>
// CHECK-COUNT-4: llvm.intr.ptrmask
// CHECK-COUNT-5: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-4: llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// CHECK:         scf.for
// CHECK:           llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr<3> -> i8
// CHECK:           llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>

// CHECK-LABEL: gpu.func @quantize_two_pass_outer_transposing_1
// CHECK-LABEL: fp8moe_plan.program @jagged
// CHECK:         %[[X:.*]] = fp8moe_plan.input "arg0"
// CHECK-DAG:     %[[N:.*]] = fp8moe_plan.dim %[[X]], 1
// Conditions of the launch: the pitch is a multiple of 16 bytes, and the columns are a multiple of
// 8 bytes.
// CHECK-DAG:     fp8moe_plan.aligned %[[X]], 16
// CHECK-DAG:     arith.remsi %[[N]], %c8
// CHECK-DAG:     arith.remsi %[[N]], %c4
// CHECK-DAG:     fp8moe_plan.tensor_map %[[X]] sizes(%[[N]], %{{.*}}) strides(%[[N]]) box(64, 128) swizzle 128 promotion 128
// CHECK-DAG:     fp8moe_plan.tensor_map %[[X]] sizes(%[[N]], %{{.*}}) strides(%[[N]]) box(64, 16) swizzle 128 promotion 128
// CHECK-DAG:     fp8moe_plan.tensor_map %[[X]] sizes(%[[N]], %{{.*}}) strides(%[[N]]) box(256, 32) swizzle 0 promotion 128
// Each tile number has a slot for its partial result.
// CHECK-DAG:     %[[OF_ROWS:.*]] = arith.ceildivsi %{{.*}}, %c64
// CHECK-DAG:     %[[SHORT:.*]] = arith.addi %[[OF_ROWS]], %{{.*}}
// CHECK-DAG:     %[[OF_LONG:.*]] = arith.ceildivsi %{{.*}}, %c128
// CHECK-DAG:     %[[LONG:.*]] = arith.addi %[[OF_LONG]], %{{.*}}
// CHECK-DAG:     arith.minsi %[[SHORT]], %[[LONG]]
// CHECK:         %[[ALL:.*]] = fp8moe_plan.device_attr {{ ?}}multiprocessors
// CHECK:         %[[BLOCKS:.*]] = arith.minsi %[[ALL]], %c256
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_single_pass_outer_0 grid(%[[BLOCKS]], %c1, %c1) block(512, 1, 1) shared 231800 cooperative programmatic when(%[[FITS:.*]]) args
// CHECK:         %[[ELSE:.*]] = arith.xori %[[FITS]], %true
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_two_pass_outer_transposing_1 {{.*}} when(%[[ELSE]])

// -----

// With static columns, only the number of rows is checked. Experts are a third dimension of the
// tensor maps. f32 tiles have half as many columns.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @weights(%x: tensor<8x?x2048xf32, #fp8moe.strided<[0, 1, 2], align = 16>>)
      -> (tensor<8x?x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<8x2048xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
        : tensor<8x?x2048xf32, #fp8moe.strided<[0, 1, 2], align = 16>>
        -> tensor<8x?x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<8x2048xf32>
    return %q, %s : tensor<8x?x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<8x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_single_pass_outer_0
// CHECK:         fp8moe_kernel.tensor_load {{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] signals
// `rounding none` divides in f64.
// CHECK:         arith.divf %{{.*}} : f64
// CHECK-LABEL: fp8moe_plan.program @weights
// CHECK-NOT:     fp8moe_plan.aligned
// CHECK:         fp8moe_plan.tensor_map %{{.*}} box(32, 128, 1) swizzle 128
// CHECK:         %[[ALL:.*]] = fp8moe_plan.device_attr {{ ?}}multiprocessors
// CHECK:         %[[BLOCKS:.*]] = arith.minsi %[[ALL]], %c256
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_single_pass_outer_0 grid(%[[BLOCKS]], {{.*}} cooperative programmatic

// -----

// The two-pass kernel is used: for a pitch that TMA cannot have, for partial 8-byte vectors, and
// for a row-major output.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @not_streamed(%x: tensor<?x2044xbf16>, %y: tensor<?x2046xf32>, %z: tensor<?x2048xbf16>, %ends: tensor<?xi32>)
      -> (tensor<?x2044xf8E4M3FN, #col>, tensor<?x2044xf32>, tensor<?x2046xf8E4M3FN, #col>, tensor<?x2046xf32>,
          tensor<?x2048xf8E4M3FN>, tensor<?x2048xf32>) {
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0] rounding pow2
        : tensor<?x2044xbf16> -> tensor<?x2044xf8E4M3FN, #col>, tensor<?x2044xf32>
    %q1, %s1 = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<?xi32>) along [0] rounding pow2
        : tensor<?x2046xf32> -> tensor<?x2046xf8E4M3FN, #col>, tensor<?x2046xf32>
    %q2, %s2 = fp8moe.jagged_dynamic_quantize %z groups(%ends : tensor<?xi32>) along [0] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?x2048xf32>
    return %q0, %s0, %q1, %s1, %q2, %s2
        : tensor<?x2044xf8E4M3FN, #col>, tensor<?x2044xf32>, tensor<?x2046xf8E4M3FN, #col>, tensor<?x2046xf32>,
          tensor<?x2048xf8E4M3FN>, tensor<?x2048xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @not_streamed
// CHECK-NOT:     single_pass

// -----

// sm_100a has TMA, but the kernel was never measured there, so it is not chosen.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  func.func @not_measured(%x: tensor<?x2048xbf16>, %ends: tensor<?xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @not_measured
// CHECK-NOT:     single_pass
