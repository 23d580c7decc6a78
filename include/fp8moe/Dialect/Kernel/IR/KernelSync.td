//===- KernelSync.td - Synchronization ---------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_IR_KERNELSYNC_TD
#define FP8MOE_DIALECT_KERNEL_IR_KERNELSYNC_TD

include "fp8moe/Dialect/Kernel/IR/KernelDialect.td"

//===----------------------------------------------------------------------===//
// Names of shared memory
//===----------------------------------------------------------------------===//

def Kernel_SharedUse : Kernel_Enum<"SharedUse",
    "the use of a part of shared memory", [
    I32EnumAttrCase<"Memory", 0, "memory">,
    I32EnumAttrCase<"MBarrier", 1, "mbarrier">,
    I32EnumAttrCase<"Stage", 2, "stage">,
    I32EnumAttrCase<"Full", 3, "full">,
    I32EnumAttrCase<"Empty", 4, "empty">]>;

def Kernel_SharedPartOp : Kernel_Op<"shared_part", [
    Pure, AllTypesMatch<["address", "result"]>]> {
  let summary = "an address in a named part of shared memory";
  let semantics = [{
    The address itself: a pointer, or an operand descriptor of `wgmma`. All that is
    computed from the result lies in the part, whose name is unique in the kernel.
    `fp8moe-check-mbarriers` and `fp8moe-check-synchronization` read names and uses:

    * `memory`: bytes that threads and copies exchange.
    * `mbarrier`: mbarriers that are initialized, arrived at and waited for alike. A thread
      arrives at most once in a phase. Lanes of a warp that arrive by one operation do so in
      one phase.
    * `stage`, `full`, `empty`: a ring of stages. Each stage has memory, an mbarrier that
      says that it is full, and one that it is empty. Readers wait for full and arrive at
      empty, writers the reverse. `stage` is the number of the stage in the ring.

    Accesses outside of named parts are compared by their addresses only.

    A writer of a ring begins with parity 1 of `empty`, which returns at once, and a reader
    with parity 0 of `full`. Both change the parity after the last stage.

    ```mlir
    // The writer, a thread:
    fp8moe_kernel.wait_parity %empty, %writersParity
    fp8moe_kernel.arrive_expect_tx %full, %bytes
    fp8moe_kernel.tensor_load %stage from %map[%column, %row] signals %full
    // A reader:
    fp8moe_kernel.wait_parity %full, %readersParity
    %0 = llvm.load %stage : !llvm.ptr<3> -> i32
    fp8moe_kernel.arrive %empty
    ```

    Names of mbarriers and of a result that threads store:
  }];
  let example = [{%barrier = fp8moe_kernel.shared_part full "operands"[%stage] at %0 : !llvm.ptr<3>
    %box = fp8moe_kernel.shared_part memory "result" at %1 : !llvm.ptr<3>}];
  let arguments = (ins Kernel_SharedUse:$use, StrAttr:$name,
      AnyTypeOf<[Kernel_SharedPointer, I64]>:$address, Optional<I32>:$stage);
  let results = (outs AnyTypeOf<[Kernel_SharedPointer, I64]>:$result);
  let assemblyFormat = [{
    $use $name (`[` $stage^ `]`)? `at` $address attr-dict `:` type($address)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

def Kernel_MBarrierInitOp : Kernel_Op<"mbarrier_init"> {
  let summary = "initialize an mbarrier";
  let semantics = [{
    By one thread, before any other thread uses it. An mbarrier is eight bytes of shared
    memory with phases, the first one of parity 0. A phase is complete after `arrivals`
    arrivals and after the bytes that these expect. The next phase begins then. Other
    threads see the mbarrier after a barrier, and copies after `mbarrier_init_fence`.
    Only NVIDIA has mbarriers.
  }];
  let example = "fp8moe_kernel.mbarrier_init %barrier, 4";
  let arguments = (ins Kernel_SharedPointer:$barrier, I32Attr:$arrivals);
  let assemblyFormat = "$barrier `,` $arrivals attr-dict";
  let hasVerifier = 1;
}

def Kernel_MBarrierInitFenceOp : Kernel_Op<"mbarrier_init_fence"> {
  let summary = "make initialized mbarriers visible to copies";
  let semantics = [{
    Orders the thread's earlier `mbarrier_init` before copies that arrive at these
    mbarriers, if a barrier of the threads follows.
  }];
  let example = "fp8moe_kernel.mbarrier_init_fence";
}

def Kernel_ArriveOp : Kernel_Op<"arrive"> {
  let summary = "arrive at an mbarrier";
  let semantics = [{
    Each thread that executes it arrives once at the current phase. Its earlier accesses
    to memory are visible to each thread that waits for this phase.
  }];
  let example = "fp8moe_kernel.arrive %barrier";
  let arguments = (ins Kernel_SharedPointer:$barrier);
  let assemblyFormat = "$barrier attr-dict";
}

def Kernel_ArriveExpectTxOp : Kernel_Op<"arrive_expect_tx"> {
  let summary = "arrive at an mbarrier, and expect bytes of copies";
  let semantics = [{
    As `arrive`. The phase also needs `bytes` bytes of copies that signal this mbarrier.
    The copies may be issued before or after.
  }];
  let example = "fp8moe_kernel.arrive_expect_tx %barrier, %bytes";
  let arguments = (ins Kernel_SharedPointer:$barrier, I32:$bytes);
  let assemblyFormat = "$barrier `,` $bytes attr-dict";
}

def Kernel_WaitParityOp : Kernel_Op<"wait_parity"> {
  let summary = "wait for a phase of an mbarrier";
  let semantics = [{
    The thread waits until the phase of this parity (0 or 1) is complete. That is the
    current phase or the one before it: a wait for parity 1 of a new mbarrier returns at
    once. The thread then sees what arriving threads wrote before, and the bytes of
    copies. The wait is bounded: after two seconds it stops the kernel with a trap.
  }];
  let example = "fp8moe_kernel.wait_parity %barrier, %parity";
  let arguments = (ins Kernel_SharedPointer:$barrier, I32:$parity);
  let assemblyFormat = "$barrier `,` $parity attr-dict";
}

//===----------------------------------------------------------------------===//
// Other barriers and fences
//===----------------------------------------------------------------------===//

def Kernel_AsyncProxyFenceOp : Kernel_Op<"async_proxy_fence"> {
  let summary = "order accesses to shared memory before asynchronous ones";
  let semantics = [{
    Orders the thread's earlier loads and stores of shared memory before later accesses by
    the asynchronous proxy: TMA and `wgmma`. A barrier extends the order to accesses that
    other threads issue. Only NVIDIA has it.
  }];
  let example = "fp8moe_kernel.async_proxy_fence";
}

class Kernel_NamedBarrier<string mnemonic> : Kernel_Op<mnemonic> {
  let arguments = (ins I32:$id, I32Attr:$threads);
  let assemblyFormat = "$id `,` $threads attr-dict";
  let hasVerifier = 1;
}

def Kernel_NamedBarrierOp : Kernel_NamedBarrier<"named_barrier"> {
  let summary = "wait at a barrier of some warps";
  let semantics = [{
    A block has barriers 0 to 15; `gpu.barrier` is number 0. The thread waits until
    `threads` threads, whole warps, have executed this or `named_barrier_arrive` for the
    barrier. It then sees what these threads wrote to memory before. The barrier is then
    free for the next round. Warps are converged. Only NVIDIA has it.
  }];
  let example = "fp8moe_kernel.named_barrier %id, 128";
}

def Kernel_NamedBarrierArriveOp
    : Kernel_NamedBarrier<"named_barrier_arrive"> {
  let summary = "arrive at a barrier of some warps";
  let semantics = [{
    As `named_barrier`, but the thread does not wait, and sees nothing new.
  }];
  let example = "fp8moe_kernel.named_barrier_arrive %id, 256";
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

def Kernel_ElectOp : Kernel_Op<"elect"> {
  let summary = "true in one lane of a subgroup";
  let semantics = [{
    The subgroup must be converged. The result is true in one lane, the same one at each
    execution by the same lanes. Only NVIDIA has it.
  }];
  let example = "%isElected = fp8moe_kernel.elect";
  let results = (outs I1:$result);
}

def Kernel_RegisterChange : Kernel_Enum<"RegisterChange",
    "a change of the number of registers", [
    I32EnumAttrCase<"Decrease", 0, "decrease">,
    I32EnumAttrCase<"Increase", 1, "increase">]>;

def Kernel_SetRegistersOp : Kernel_Op<"set_registers"> {
  let summary = "change the registers of a warpgroup";
  let semantics = [{
    All warps of a warpgroup, four consecutive warps, change their registers per thread to
    `registers`. `increase` waits until other warpgroups have given up enough. Values stay
    what they are. Only NVIDIA has it.
  }];
  let example = [{fp8moe_kernel.set_registers increase 232
    fp8moe_kernel.set_registers decrease 40}];
  let arguments = (ins Kernel_RegisterChange:$change, I32Attr:$registers);
  let assemblyFormat = "$change $registers attr-dict";
  let hasVerifier = 1;
}

def Kernel_OpaqueOp : Kernel_Op<"opaque", [
    AllTypesMatch<["value", "result"]>]> {
  let summary = "a value that compilers know nothing about";
  let semantics = [{
    The value itself. No compiler drops or repeats the operation, moves it into another
    branch, or moves what it depends on behind it. It costs no instruction. With
    `uniform`, words are equal in all lanes of the subgroup, and AMD keeps each in one
    register of it. NVIDIA has no such registers.
  }];
  let example = [{%0 = fp8moe_kernel.opaque %words : vector<4xi32>
    %1 = fp8moe_kernel.opaque uniform %count : i32}];
  let arguments = (ins UnitAttr:$uniform,
      AnyTypeOf<[I32, FixedVectorOfRankAndType<[1], [I32]>]>:$value);
  let results = (outs AnyTypeOf<[I32, FixedVectorOfRankAndType<[1], [I32]>]>:$result);
  let assemblyFormat = "(`uniform` $uniform^)? $value attr-dict `:` type($value)";
  let builders = [OpBuilder<(ins "::mlir::Value":$value), [{
      build($_builder, $_state, value.getType(), /*uniform=*/false, value);
    }]>];
}

def Kernel_ReadLaneOp : Kernel_Op<"read_lane", [Pure]> {
  let summary = "a word of one lane";
  let semantics = [{
    `value` of lane number `lane`, which is equal in all lanes of the converged subgroup. So
    is the result.
  }];
  let example = "%word = fp8moe_kernel.read_lane %value, %lane";
  let arguments = (ins I32:$value, I32:$lane);
  let results = (outs I32:$result);
  let assemblyFormat = "$value `,` $lane attr-dict";
}

//===----------------------------------------------------------------------===//
// Waves, of AMD only
//===----------------------------------------------------------------------===//

def Kernel_WaitAccessesOp : Kernel_Op<"wait_accesses"> {
  let summary = "wait for accesses of a wave";
  let semantics = [{
    The wave waits until few of its accesses are under way, the last ones. These are at most
    `loads` loads from global memory, and at most `shared` accesses to shared memory. The
    results of the others exist, and their bytes are in shared memory. Without `loads`, any
    number of loads may be under way. Only AMD has it.
  }];
  let example = "fp8moe_kernel.wait_accesses loads 8 shared 0";
  let arguments = (ins OptionalAttr<I32Attr>:$loads, I32Attr:$shared);
  let assemblyFormat = "(`loads` $loads^)? `shared` $shared attr-dict";
  let hasVerifier = 1;
}

def Kernel_ExecutionBarrierOp : Kernel_Op<"execution_barrier"> {
  let summary = "wait for the waves of a block";
  let semantics = [{
    Waves go on when all waves of the block have arrived. It orders execution only: accesses
    are visible to other waves if `wait_accesses` has waited for them before. Compilers move
    nothing across it. Only AMD has it.
  }];
  let example = "fp8moe_kernel.execution_barrier";
}

def Kernel_SchedulingFenceOp : Kernel_Op<"scheduling_fence"> {
  let summary = "keep compilers from moving instructions";
  let semantics = [{
    No compiler moves an instruction or an access to memory across it. It changes nothing but
    time. Only AMD has it.
  }];
  let example = "fp8moe_kernel.scheduling_fence";
}

def Kernel_SetPriorityOp : Kernel_Op<"set_priority"> {
  let summary = "change the priority of a wave";
  let semantics = [{
    From now on, instructions of waves with a higher priority, from 0 to 3, go first. It
    changes nothing but time. Only AMD has it.
  }];
  let example = "fp8moe_kernel.set_priority 1";
  let arguments = (ins I32Attr:$priority);
  let assemblyFormat = "$priority attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Launches and time
//===----------------------------------------------------------------------===//

def Kernel_LaunchDependentsOp : Kernel_Op<"launch_dependents"> {
  let summary = "let the next kernel of the stream begin";
  let semantics = [{
    When all blocks have executed it or ended, blocks of the next kernel of the stream may
    begin, if its launch is programmatic. It orders nothing. Only NVIDIA has it.
  }];
  let example = "fp8moe_kernel.launch_dependents";
}

def Kernel_WaitForPrerequisitesOp : Kernel_Op<"wait_for_prerequisites"> {
  let summary = "wait for the kernels before this one";
  let semantics = [{
    The thread waits until the kernels that this one depends on have ended, and sees all
    that they wrote. These are all before it in the stream, if each of them waits as well.
    Each thread of a programmatic launch executes it before it accesses global memory.
    Threads of other launches do not need it. Only NVIDIA has it.
  }];
  let example = "fp8moe_kernel.wait_for_prerequisites";
}

def Kernel_WaitClock : Kernel_Enum<"WaitClock", "the clock of a wait", [
    I32EnumAttrCase<"Cycles", 0, "cycles">,
    I32EnumAttrCase<"GlobalTimer", 1, "global_timer">]>;

def Kernel_BeginWaitOp : Kernel_Op<"begin_wait"> {
  let summary = "the time when a wait begins";
  let semantics = [{
    The thread's time by one of two clocks, which `bound_wait` takes.

    * `cycles`: the multiprocessor's cycles. Reading them costs next to nothing.
    * `global_timer`: the device's timer. It is slow to read, so it is for waits that
      read it only after a first attempt.

    Only NVIDIA has it.
  }];
  let example = "%begin = fp8moe_kernel.begin_wait cycles";
  let arguments = (ins Kernel_WaitClock:$clock);
  let results = (outs I64:$begin);
  let assemblyFormat = "$clock attr-dict";
}

def Kernel_BoundWaitOp : Kernel_Op<"bound_wait"> {
  let summary = "stop the kernel when a wait takes too long";
  let semantics = [{
    Stops the kernel with a trap more than two seconds after `begin` by the same clock.
    Each kernel ends within milliseconds, so such a wait is a deadlock. Every loop that
    waits for other threads executes it in each round, unless the loop has a bound of its own.
  }];
  let example = "fp8moe_kernel.bound_wait cycles %begin";
  let arguments = (ins Kernel_WaitClock:$clock, I64:$begin);
  let assemblyFormat = "$clock $begin attr-dict";
}

#endif // FP8MOE_DIALECT_KERNEL_IR_KERNELSYNC_TD
