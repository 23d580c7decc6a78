// REQUIRES: ptxas
// RUN: fp8moe-opt %s --fp8moe-to-nvvm="chip=sm_90a" -o %t.mlir
// RUN: FileCheck %s --check-prefix=NVVM --input-file=%t.mlir
// RUN: fp8moe-opt %t.mlir --test-fp8moe-emit="chip=sm_90a kind=ptx" -o /dev/null | FileCheck %s --check-prefix=PTX
// RUN: rm -rf %t && fp8moe-compile %s --target sm_90a -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST --input-file=%t/sm_90a/manifest.json
// RUN: fp8moe-compile %s --target sm_90a -o %t.again && diff -r %t %t.again

// This program uses everything that a launch can ask for: tensor maps, clusters, cooperative
// launch, conditions and workspace. Clusters of two blocks copy tiles of 16 rows and 64 columns by
// TMA. All blocks wait for each other for a bounded time and report what they saw.
// test/Integration/test_launches.py runs it.

// The kernel takes the tensor map as 128 read-only bytes by value. Its shared memory is the dynamic
// memory of the launch.
// NVVM-LABEL: gpu.module @kernels
// NVVM: llvm.mlir.global external @tiles() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// NVVM-LABEL: llvm.func @copy_tiles(
// NVVM-SAME: %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}, %{{.*}}: !llvm.ptr,
// NVVM-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>

// PTX: .extern .shared .align 1024 .b8 tiles[];
// PTX: .entry copy_tiles(
// PTX-NEXT: .param .align 64 .b8 copy_tiles_param_0[128],
// PTX: .reqnctapercluster 2
// The TMA instruction gets the address of the parameter itself, not of a local copy.
// PTX-NOT: .local
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier

// MANIFEST: "min_runtime": "0.1.0",
// MANIFEST: {"op": "device_attr", "args": ["multiprocessors"]}
// MANIFEST: {"op": "aligned", "args": [0, 1024]}
// MANIFEST: "tensor_maps": [
// MANIFEST-NEXT: {"buffer": 0, "offset": 8, "sizes": [64, {"value": {{[0-9]+}}}], "strides": [{"value": {{[0-9]+}}}], "box": [64, 16], "swizzle": 128, "promotion": 256}
// MANIFEST-NEXT: ],
// MANIFEST-NEXT: "launches": [
// MANIFEST-NEXT: {"kernel": "clear", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0, "args": [{"buffer": 3}]},
// MANIFEST-NEXT: {"kernel": "copy_tiles", "grid": [{"value": [[BLOCKS:[0-9]+]]}, 1, 1], "block": [128, 1, 1], "shared": 65536, "cluster": [2, 1, 1], "cooperative": true, "args": [{"tensor_map": 0}, {"buffer": 1}, {"buffer": 2}, {"buffer": 3}, {"value": [[BLOCKS]]}, {"value": {{[0-9]+}}}]},
// MANIFEST-NEXT: {"kernel": "mark", {{.*}} "when": {"value": [[ALIGNED:[0-9]+]]}, "args": [{"buffer": 2}, 1]},
// MANIFEST-NEXT: {"kernel": "mark", {{.*}} "when": {"value": {{[0-9]+}}}, "args": [{"buffer": 2}, 2]}

gpu.module @kernels {
  llvm.mlir.global external @tiles() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>

  gpu.func @clear(%counter: !llvm.ptr) kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c0 = llvm.mlir.constant(0 : i64) : i64
    llvm.store %c0, %counter : i64, !llvm.ptr
    gpu.return
  }

  // Column 3 of each row of "seen" is the number of the launch variant that ran.
  gpu.func @mark(%seen: !llvm.ptr, %variant: i64) kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %0 = nvvm.read.ptx.sreg.ctaid.x : i32
    %b = llvm.zext %0 : i32 to i64
    %row = llvm.getelementptr %seen[%b] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<4 x i64>
    %to = llvm.getelementptr %row[3] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %variant, %to : i64, !llvm.ptr
    gpu.return
  }

  // Row b of "seen" describes block b: its rank in the cluster, whether it saw all blocks arrive,
  // and the value of `multiprocessors`.
  gpu.func @copy_tiles(%map: !llvm.ptr {fp8moe_plan.tensor_map}, %y: !llvm.ptr, %seen: !llvm.ptr,
                       %counter: !llvm.ptr, %blocks: i64, %multiprocessors: i64) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %zero64 = llvm.mlir.constant(0 : i64) : i64
    %one64 = llvm.mlir.constant(1 : i64) : i64
    %tries = llvm.mlir.constant(100000 : i64) : i64
    %rows = llvm.mlir.constant(16 : i32) : i32
    %eight = llvm.mlir.constant(8 : i32) : i32
    %tileBytes = llvm.mlir.constant(2048 : i32) : i32
    %tiles = llvm.mlir.addressof @tiles : !llvm.ptr<3>
    // The mbarrier lies in the last 8 of 64 KiB, so that it needs the raised shared memory limit.
    %barrier = llvm.getelementptr %tiles[65528] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %b = nvvm.read.ptx.sreg.ctaid.x : i32
    %isFirst = llvm.icmp "eq" %t, %zero : i32
    llvm.cond_br %isFirst, ^init, ^ready
  ^init:
    nvvm.mbarrier.init %barrier, %one : !llvm.ptr<3>, i32
    nvvm.fence.mbarrier.init
    llvm.br ^ready
  ^ready:
    nvvm.barrier0
    llvm.cond_br %isFirst, ^copy, ^wait
  ^copy:
    nvvm.mbarrier.arrive.expect_tx %barrier, %tileBytes : !llvm.ptr<3>, i32
    %row = llvm.mul %b, %rows : i32
    %mineInCluster = llvm.addrspacecast %tiles : !llvm.ptr<3> to !llvm.ptr<7>
    nvvm.cp.async.bulk.tensor.shared.cluster.global %mineInCluster, %map, %barrier, box[%zero, %row]
        : !llvm.ptr<7>, !llvm.ptr
    llvm.br ^wait
  ^wait:
    llvm.br ^try(%zero64 : i64)
  ^try(%waited: i64):
    %done = nvvm.mbarrier.try_wait %barrier, %zero : !llvm.ptr<3>, i32 -> i1
    %longer = llvm.add %waited, %one64 : i64
    %given_up = llvm.icmp "uge" %longer, %tries : i64
    %over = llvm.or %done, %given_up : i1
    llvm.cond_br %over, ^take, ^try(%longer : i64)
  ^take:
    // Thread t moves 16 bytes, whose place within the row the swizzle has permuted.
    %r = llvm.udiv %t, %eight : i32
    %c = llvm.urem %t, %eight : i32
    %phase = llvm.urem %r, %eight : i32
    %swizzled = llvm.xor %c, %phase : i32
    %0 = llvm.mul %r, %eight : i32
    %from = llvm.add %0, %swizzled : i32
    %source = llvm.getelementptr %tiles[%from] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, vector<4xi32>
    %words = llvm.load %source : !llvm.ptr<3> -> vector<4xi32>
    %b64 = llvm.zext %b : i32 to i64
    %t64 = llvm.zext %t : i32 to i64
    %c128 = llvm.mlir.constant(128 : i64) : i64
    %1 = llvm.mul %b64, %c128 : i64
    %to = llvm.add %1, %t64 : i64
    %target = llvm.getelementptr %y[%to] : (!llvm.ptr, i64) -> !llvm.ptr, vector<4xi32>
    llvm.store %words, %target : vector<4xi32>, !llvm.ptr
    llvm.cond_br %isFirst, ^arrive, ^exit
  ^arrive:
    %mine = llvm.atomicrmw add %counter, %one64 seq_cst : !llvm.ptr, i64
    llvm.br ^poll(%zero64 : i64)
  ^poll(%try: i64):
    %arrived = llvm.atomicrmw add %counter, %zero64 seq_cst : !llvm.ptr, i64
    %all = llvm.icmp "uge" %arrived, %blocks : i64
    %next = llvm.add %try, %one64 : i64
    %late = llvm.icmp "uge" %next, %tries : i64
    %stop = llvm.or %all, %late : i1
    llvm.cond_br %stop, ^report, ^poll(%next : i64)
  ^report:
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    %rank64 = llvm.zext %rank : i32 to i64
    %all64 = llvm.zext %all : i1 to i64
    %p0 = llvm.getelementptr %seen[%b64] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<4 x i64>
    %p1 = llvm.getelementptr %p0[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %p2 = llvm.getelementptr %p0[2] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %rank64, %p0 : i64, !llvm.ptr
    llvm.store %all64, %p1 : i64, !llvm.ptr
    llvm.store %multiprocessors, %p2 : i64, !llvm.ptr
    llvm.br ^exit
  ^exit:
    gpu.return
  }
}

// "y" gets columns 8 to 71 of "x". Rows beyond the end of "x" are zero.
fp8moe_plan.program @copy_tiles {
  %x = fp8moe_plan.input "x" align 2 : memref<?x?xbf16, strided<[?, 1]>>
  %m = fp8moe_plan.dim %x, 0 : memref<?x?xbf16, strided<[?, 1]>>
  %n = fp8moe_plan.dim %x, 1 : memref<?x?xbf16, strided<[?, 1]>>
  %pitch = fp8moe_plan.stride %x, 0 : memref<?x?xbf16, strided<[?, 1]>>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c72 = arith.constant 72 : index
  %enough = arith.cmpi sge, %n, %c72 : index
  fp8moe_plan.require %enough, "'x' must have 72 columns"
  %pairs = arith.ceildivsi %m, %c32 : index
  %blocks = arith.muli %pairs, %c2 : index
  %rows = arith.muli %pairs, %c32 : index
  %y = fp8moe_plan.output "y" sizes(%rows) align 16 : memref<?x64xbf16>
  %seen = fp8moe_plan.output "seen" sizes(%blocks) align 8 : memref<?x4xi64>
  %counter = fp8moe_plan.workspace align 8 : memref<1xi64>
  %multiprocessors = fp8moe_plan.device_attr multiprocessors : index
  %aligned = fp8moe_plan.aligned %x, 1024 : memref<?x?xbf16, strided<[?, 1]>>
  %true = arith.constant true
  %unaligned = arith.xori %aligned, %true : i1
  %map = fp8moe_plan.tensor_map %x offset(%c8) sizes(%c64, %m) strides(%pitch) box(64, 16)
      swizzle 128 promotion 256 : memref<?x?xbf16, strided<[?, 1]>>
  fp8moe_plan.launch @kernels::@clear grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%counter) : memref<1xi64>
  fp8moe_plan.launch @kernels::@copy_tiles grid(%blocks, %c1, %c1) block(128, 1, 1)
      shared 65536 cluster(2, 1, 1) cooperative
      args(%map, %y, %seen, %counter, %blocks, %multiprocessors)
      : !fp8moe_plan.tensor_map, memref<?x64xbf16>, memref<?x4xi64>, memref<1xi64>, index, index
  fp8moe_plan.launch @kernels::@mark grid(%blocks, %c1, %c1) block(1, 1, 1) shared 0
      when(%aligned) args(%seen, %c1) : memref<?x4xi64>, index
  fp8moe_plan.launch @kernels::@mark grid(%blocks, %c1, %c1) block(1, 1, 1) shared 0
      when(%unaligned) args(%seen, %c2) : memref<?x4xi64>, index
}
