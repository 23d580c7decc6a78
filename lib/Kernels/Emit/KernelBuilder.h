//===- KernelBuilder.h - Builds one GPU kernel ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_KERNELBUILDER_H
#define FP8MOE_LIB_KERNELS_EMIT_KERNELBUILDER_H

#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::fp8moe {

/// A word is an i32.
inline constexpr int64_t kWordBytes = sizeof(int32_t);
inline constexpr int64_t kWordBits = 8 * kWordBytes;

/// The parameters of a kernel in their order, and how it is launched.
struct KernelSignature {
  /// Tensor maps, `!llvm.ptr` with the attribute `fp8moe_plan.tensor_map`.
  unsigned tensorMaps = 0;
  /// Addresses of buffers, `!llvm.ptr`.
  unsigned pointers = 0;
  /// Numbers, `i64`.
  unsigned sizes = 0;
  /// Whether the number of blocks of the grid follows, an `i64`. Kernels of a
  /// vendor whose hardware has it in a register need no parameter.
  bool hasBlockCount = true;
  /// Threads of a block.
  int64_t threads = 0;
};

/// How many of a problem's sizes are only known at run time: so many are
/// parameters of its kernel.
template <typename Sizes> unsigned countDynamic(const Sizes &sizes) {
  return llvm::count_if(Sizes::members(), [&](auto member) {
    return ShapedType::isDynamic(sizes.*member);
  });
}

/// Creates a kernel and builds its body tersely. Sizes and offsets are i64
/// (buffers may be larger than 4 GiB), data moves as i32 words and as
/// vector<4xi32> of 16 bytes, and constants fold while building. Helpers take a
/// plain integer wherever a constant is meant.
class KernelBuilder : public ImplicitLocOpBuilder {
public:
  /// A value or a constant of the other operand's type.
  class Operand {
  public:
    Operand(Value value) : value(value) {}
    template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    Operand(T constant) : constant(static_cast<int64_t>(constant)) {}

  private:
    friend class KernelBuilder;
    Value value;
    int64_t constant = 0;
  };

  /// Starts kernel `name` at the end of `module`.
  KernelBuilder(Location loc, gpu::GPUModuleOp module, StringRef name,
                const KernelSignature &signature, const TargetInfo &target);

  gpu::GPUFuncOp getKernel() { return kernel; }
  const TargetInfo &getTarget() const { return target; }
  int64_t getNumThreads() const { return threads; }
  int64_t getSubgroupSize() const { return target.warpSize; }

  /// Asks the vendor's compiler to use few enough registers that so many blocks
  /// of the kernel fit a multiprocessor, or as many as its shared memory
  /// leaves, where each has `sharedBytes`.
  void requestResidentBlocks(int64_t blocks, int64_t sharedBytes = 0);

  /// The parameters; pointers are in the global address space, tensor maps in
  /// the generic one.
  Value getTensorMap(unsigned index, StringRef name = {}) {
    return named(name, tensorMaps[index]);
  }
  Value getPointer(unsigned index, StringRef name = {});
  Value getSize(unsigned index) { return sizes[index]; }

  /// While it lives, operations are part of a step of the kernel. Printed
  /// kernels call functions by the names of steps.
  class Step {
  public:
    Step(KernelBuilder &b, StringRef name);
    ~Step() { b.setLoc(outer); }

  private:
    KernelBuilder &b;
    Location outer;
  };

  /// The value itself, which printed kernels call by this name. Constants have
  /// none, and neither have results of operations with several.
  Value named(StringRef name, Value value);

  //===--------------------------------------------------------------------===//
  // Position of the thread, all i64
  //===--------------------------------------------------------------------===//

  Value getThread() { return thread; }
  Value getBlock() { return block; }
  /// Subgroup within the block, and lane within the subgroup.
  Value getSubgroup();
  Value getLane();
  /// The subgroup, so that the vendor's compiler knows that lanes share it.
  Value getUniformSubgroup();
  /// The number of blocks of the grid (i32).
  Value getNumBlocks();

  //===--------------------------------------------------------------------===//
  // Integers
  //===--------------------------------------------------------------------===//

  Value i64(int64_t value);
  Value i32(int64_t value);
  Value i1(bool value);
  Value f32(float value);

  Value add(Value lhs, Operand rhs);
  Value sub(Value lhs, Operand rhs);
  Value mul(Value lhs, Operand rhs);
  Value divU(Value lhs, Operand rhs);
  Value remU(Value lhs, Operand rhs);
  /// lhs / rhs rounded up and `lhs` rounded up to a multiple, lhs >= 0, rhs >
  /// 0.
  Value ceilDiv(Value lhs, Operand rhs);
  Value roundUp(Value lhs, Operand rhs);
  Value minS(Value lhs, Operand rhs);
  Value minU(Value lhs, Operand rhs);
  Value maxS(Value lhs, Operand rhs);
  Value maxU(Value lhs, Operand rhs);
  /// min(max(value, low), high).
  Value clamp(Value value, Operand low, Operand high);
  Value bitAnd(Value lhs, Operand rhs);
  Value bitOr(Value lhs, Operand rhs);
  Value bitXor(Value lhs, Operand rhs);
  Value shiftLeft(Value lhs, Operand rhs);
  Value shiftRight(Value lhs, Operand rhs);
  Value compare(arith::CmpIPredicate predicate, Value lhs, Operand rhs);
  Value equal(Value lhs, Operand rhs);
  Value less(Value lhs, Operand rhs);
  Value lessEqual(Value lhs, Operand rhs);
  Value select(Value condition, Value ifTrue, Operand ifFalse);
  Value isNonZero(Value value);
  /// Conversions to a wider (zero-extended) or narrower integer.
  Value zeroExtend(Type type, Value value);
  Value truncate(Type type, Value value);
  /// Conversions between i32 and i64.
  Value widen(Value value) { return zeroExtend(getI64Type(), value); }
  Value widenSigned(Value value);
  Value narrow(Value value) { return truncate(getI32Type(), value); }
  Value bitcast(Type type, Value value);

  //===--------------------------------------------------------------------===//
  // Words: 16 bytes as vector<4xi32>
  //===--------------------------------------------------------------------===//

  VectorType getWordsType();
  Value zeroWords();
  /// These two take any number of words.
  Value packWords(ArrayRef<Value> words);
  SmallVector<Value> unpackWords(Value vector);
  /// Joins elements (i8, i16 or i32, first in the lowest bits) to i32 words.
  SmallVector<Value> joinElements(ArrayRef<Value> elements);
  /// The reverse, for a vector of words.
  SmallVector<Value> splitWords(Value words, IntegerType elementType);
  /// The lower and the upper eight bytes as i64.
  std::pair<Value, Value> splitHalves(Value words);
  /// The word (i32) whose byte i is byte n of the eight in `low` and `high`,
  /// where n is the number in bits 4 * i to 4 * i + 3 of `selector` (all i32).
  Value permuteBytes(Value low, Value high, Value selector) {
    return kernel::PermuteBytesOp::create(*this, low, high, selector);
  }
  /// The f32 with the value of the bf16 in the lower or the upper half of a
  /// word, as its bits (all i32).
  Value widenLowBF16(Value word);
  Value widenHighBF16(Value word);
  /// Two f32 rounded to bf16, as an i32 with the first one in the lower half.
  Value packBF16(Value low, Value high);
  /// The f32 values of elements, bf16 or f32, in words; and the words of as
  /// many elements as fill them, rounded to their type.
  SmallVector<Value> unpackFloats(ArrayRef<Value> words, Type elementType);
  SmallVector<Value> packFloats(ArrayRef<Value> values, Type elementType);

  //===--------------------------------------------------------------------===//
  // Control flow
  //
  // A body returns what it yields: nothing, one value or several. Its operation
  // returns the same.
  //===--------------------------------------------------------------------===//

  /// A constant condition emits only the branch that is taken.
  template <typename Then, typename Else>
  auto createIf(Value condition, Then thenBody, Else elseBody) {
    return deliver<std::invoke_result_t<Then>>(buildIf(
        condition, [&] { return collect(thenBody); },
        [&] { return collect(elseBody); }));
  }
  template <typename Then> void createIf(Value condition, Then thenBody) {
    buildIf(condition, [&] { return collect(thenBody); }, nullptr);
  }
  /// `body` gets the index, and what is carried: one Value or a ValueRange.
  template <typename Body>
  auto createFor(Value lower, Value upper, Operand step, ValueRange init,
                 Body body, bool isRare = false) {
    auto iterate = [&](Value index, ValueRange carried) {
      if constexpr (std::is_invocable_v<Body, Value, ValueRange>)
        return body(index, carried);
      else if constexpr (std::is_invocable_v<Body, Value, Value>)
        return body(index, carried.front());
      else
        return body(index);
    };
    return deliver<decltype(iterate(lower, init))>(
        buildFor(
            lower, upper, step, init,
            [&](Value index, ValueRange carried) {
              return collect([&] { return iterate(index, carried); });
            },
            isRare)
            .getResults());
  }
  template <typename Body>
  void createFor(Value lower, Value upper, Operand step, Body body) {
    createFor(lower, upper, step, ValueRange(), body);
  }
  /// A loop that is not expected to run often: no compiler unrolls it, which
  /// would take registers from the code around.
  template <typename Body>
  auto createRareFor(Value lower, Value upper, Operand step, ValueRange init,
                     Body body) {
    return createFor(lower, upper, step, init, body, /*isRare=*/true);
  }
  template <typename Body>
  void createRareFor(Value lower, Value upper, Operand step, Body body) {
    createRareFor(lower, upper, step, ValueRange(), body);
  }
  /// `before` returns whether to go on, and the values of `types` that `body`
  /// gets; the results are those at the end.
  SmallVector<Value> createWhile(
      ValueRange init, TypeRange types,
      function_ref<std::pair<Value, SmallVector<Value>>(ValueRange)> before,
      function_ref<SmallVector<Value>(ValueRange)> body);
  /// Repeats `body` with what is carried while `goesOn`.
  SmallVector<Value>
  createWhile(ValueRange init, function_ref<Value(ValueRange)> goesOn,
              function_ref<SmallVector<Value>(ValueRange)> body);
  /// Runs `body` for every work tile in [0, workTiles), the blocks of the grid
  /// taking turns: a grid of any size computes the same. The index is uniform
  /// in the block. Needs a kernel with a block count.
  ///
  /// Where most blocks have one tile (`mostlyOne`), nothing that all tiles
  /// share is computed before the first: it would hold registers for the next
  /// one.
  void forEachWorkTile(Value workTiles, function_ref<void(Value workTile)> body,
                       bool mostlyOne = false);

  //===--------------------------------------------------------------------===//
  // Threads together
  //===--------------------------------------------------------------------===//

  void createBarrier();
  /// `value` (i32) of lane `lane ^ mask`, or of lane `lane` (i32).
  Value shuffleXor(Value value, int64_t mask);
  Value shuffleIndex(Value value, Value lane);
  /// `value` (i32) of this lane and of lane `lane ^ mask`, for what does not
  /// ask which is which.
  std::pair<Value, Value> exchange(Value value, int64_t mask);
  /// Combines `value` (i32) over the lanes whose numbers agree modulo `stride`.
  Value reduceLanes(Value value, int64_t stride,
                    function_ref<Value(Value, Value)> combine);
  /// The largest `value` (i32, unsigned) of all lanes.
  Value maxOfLanes(Value value);
  /// Combines `value` (i32) of all lanes up to this one, `lane` (i32).
  Value scanLanes(Value value, Value lane,
                  function_ref<Value(Value, Value)> combine);
  /// As scanLanes, for an operation that may combine a lane more than once.
  Value scanLanesIdempotent(Value value, Value lane,
                            function_ref<Value(Value, Value)> combine);
  /// `value` (i32) of the lane before this one, `lane` (i32). The first lane
  /// keeps its own.
  Value shiftLanes(Value value, Value lane);
  /// `value` (i32), which is the same in all lanes.
  Value uniform(Value value) { return kernel::UniformOp::create(*this, value); }
  /// Whether `condition` (i1) holds in any lane.
  Value voteAny(Value condition) {
    return kernel::VoteAnyOp::create(*this, condition);
  }
  /// The lanes where `condition` (i1) holds, as the bits of an integer.
  Value ballot(Value condition) {
    return kernel::BallotOp::create(*this, getIntegerType(getSubgroupSize()),
                                    condition);
  }
  /// The lanes meet, and see what each other wrote to memory before.
  void syncSubgroup() { kernel::SubgroupBarrierOp::create(*this); }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// `bytes` of shared memory, aligned to 16.
  Value allocateShared(int64_t bytes, StringRef name);
  /// The dynamic shared memory of the launch, aligned to 1024 bytes, which is
  /// what tensor maps with a swizzle of 128 bytes need. The kernels of a module
  /// share the symbol; how large it is says each launch.
  Value getDynamicShared();
  /// A word of global memory for all launches of the kernel: zero when it is
  /// loaded, then what launches leave.
  Value allocateGlobalWord(StringRef name);
  Value offsetBytes(Value pointer, Operand bytes);
  /// `readOnly` promises that nobody writes there while the kernel runs.
  Value load(Type type, Value pointer, int64_t alignment,
             bool readOnly = false);
  void store(Value value, Value pointer, int64_t alignment);
  /// Accesses of an i32; any value of four bytes can be stored.
  Value loadWord(Value pointer, bool readOnly = false) {
    return load(getI32Type(), pointer, kWordBytes, readOnly);
  }
  void storeWord(Value word, Value pointer) {
    store(word, pointer, kWordBytes);
  }

  // Atomic accesses of an i32 at the scope of the device. Relaxed ones order
  // nothing else; fences do.

  Value loadRelaxed(Value pointer);
  /// An acquire load: writes that the word's writer released before it are
  /// visible afterwards. Takes less time than a fence.
  Value loadAcquire(Value pointer);
  void storeRelaxed(Value word, Value pointer);
  /// Orders this thread's earlier accesses, and those of others that it has
  /// seen through barriers, before its later ones, for every thread of the
  /// device.
  void createDeviceFence();

private:
  Value loadAtomic(Value pointer, LLVM::AtomicOrdering ordering);
  /// The values that a body returns.
  template <typename Body> static SmallVector<Value> collect(Body body) {
    using Result = std::invoke_result_t<Body>;
    if constexpr (std::is_void_v<Result>) {
      body();
      return {};
    } else if constexpr (std::is_convertible_v<Result, Value>) {
      return {Value(body())};
    } else {
      return body();
    }
  }
  /// The reverse, for a body that returns a `Result`.
  template <typename Result> static auto deliver(ValueRange values) {
    if constexpr (std::is_convertible_v<Result, Value>)
      return values.front();
    else if constexpr (!std::is_void_v<Result>)
      return llvm::to_vector_of<Value>(values);
  }
  SmallVector<Value> buildIf(Value condition,
                             function_ref<SmallVector<Value>()> thenBody,
                             function_ref<SmallVector<Value>()> elseBody);
  scf::ForOp buildFor(Value lower, Value upper, Operand step, ValueRange init,
                      function_ref<SmallVector<Value>(Value, ValueRange)> body,
                      bool isRare = false);
  Value createVariable(StringRef name, Type type, Attribute value,
                       int64_t alignment, unsigned space);
  Value materialize(Operand operand, Type type);

  const TargetInfo &target;
  gpu::GPUModuleOp module;
  gpu::GPUFuncOp kernel;
  int64_t threads;
  SmallVector<Value> tensorMaps, pointers, sizes;
  Value thread, block, numBlocks;
};

/// A problem's sizes as values. Sizes that are only known at run time are the
/// kernel's parameters from `parameter` on, which is moved behind them.
template <template <typename> class Sizes>
Sizes<Value> bindSizes(KernelBuilder &b, const Sizes<int64_t> &known,
                       unsigned &parameter) {
  Sizes<Value> sizes;
  for (auto [from, to] :
       llvm::zip_equal(Sizes<int64_t>::members(), Sizes<Value>::members())) {
    int64_t size = known.*from;
    sizes.*to =
        ShapedType::isDynamic(size) ? b.getSize(parameter++) : b.i64(size);
  }
  return sizes;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_KERNELBUILDER_H
