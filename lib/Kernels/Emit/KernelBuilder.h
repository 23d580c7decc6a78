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

/// Returns how many of a problem's sizes are dynamic. Each is a parameter of
/// the problem's kernel.
template <typename Sizes> unsigned countDynamic(const Sizes &sizes) {
  return llvm::count_if(Sizes::members(), [&](auto member) {
    return ShapedType::isDynamic(sizes.*member);
  });
}

/// Creates a kernel and builds its body tersely. Sizes and offsets are i64
/// (buffers may exceed 4 GiB). Data moves as i32 words and as vector<4xi32> of
/// 16 bytes. Constants fold while building. Helpers take a plain integer
/// wherever a constant is meant.
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

  /// Sets an occupancy target: the vendor's compiler limits registers so that
  /// `blocks` blocks fit a multiprocessor. The target is lower where shared
  /// memory of `sharedBytes` a block allows fewer.
  void requestResidentBlocks(int64_t blocks, int64_t sharedBytes = 0);

  /// Return parameters of the kernel. Pointers are in the global address space,
  /// tensor maps in the generic one.
  Value getTensorMap(unsigned index, StringRef name = {}) {
    return named(name, tensorMaps[index]);
  }
  Value getPointer(unsigned index, StringRef name = {});
  Value getSize(unsigned index) { return sizes[index]; }

  /// Marks operations created during its lifetime as one step of the kernel.
  /// Printed kernels show each step as a call of a function with this name.
  class Step {
  public:
    Step(KernelBuilder &b, StringRef name);
    ~Step() { b.setLoc(outer); }

  private:
    KernelBuilder &b;
    Location outer;
  };

  /// Returns `value`, and sets the name that printed kernels show for it.
  /// Constants and results of operations with several results get no name.
  Value named(StringRef name, Value value);

  //===--------------------------------------------------------------------===//
  // Position of the thread, all i64
  //===--------------------------------------------------------------------===//

  Value getThread() { return thread; }
  Value getBlock() { return block; }
  /// Index of the subgroup in the block, and of the lane in the subgroup.
  Value getSubgroup();
  Value getLane();
  /// Subgroup index in a form that the vendor's compiler knows to be uniform.
  Value getUniformSubgroup();
  /// Returns the number of blocks of the grid (i32).
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
  /// Return lhs / rhs rounded up, and `lhs` rounded up to a multiple of `rhs`.
  /// Require lhs >= 0 and rhs > 0.
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
  /// Convert to a wider (zero-extended) or a narrower integer.
  Value zeroExtend(Type type, Value value);
  Value truncate(Type type, Value value);
  /// Convert between i32 and i64.
  Value widen(Value value) { return zeroExtend(getI64Type(), value); }
  Value widenSigned(Value value);
  Value narrow(Value value) { return truncate(getI32Type(), value); }
  Value bitcast(Type type, Value value);

  //===--------------------------------------------------------------------===//
  // Words: 16 bytes as vector<4xi32>
  //===--------------------------------------------------------------------===//

  VectorType getWordsType();
  Value zeroWords();
  /// These two methods take any number of words.
  Value packWords(ArrayRef<Value> words);
  SmallVector<Value> unpackWords(Value vector);
  /// Joins elements (i8, i16 or i32, first in the lowest bits) to i32 words.
  SmallVector<Value> joinElements(ArrayRef<Value> elements);
  /// Splits a vector of words into elements: the inverse of joinElements.
  SmallVector<Value> splitWords(Value words, IntegerType elementType);
  /// Returns the lower and the upper eight bytes as i64.
  std::pair<Value, Value> splitHalves(Value words);
  /// Returns a word (i32) of bytes picked from the eight in `low` and `high`.
  /// Bits 4 * i to 4 * i + 3 of `selector` number the source of byte i. All are
  /// i32.
  Value permuteBytes(Value low, Value high, Value selector) {
    return kernel::PermuteBytesOp::create(*this, low, high, selector);
  }
  /// Return the bf16 in the lower or the upper half of a word as f32 bits. All
  /// values are i32.
  Value widenLowBF16(Value word);
  Value widenHighBF16(Value word);
  /// Rounds two f32 to bf16 and packs them into an i32, `low` in the lower
  /// half.
  Value packBF16(Value low, Value high);
  /// Unpack elements (bf16 or f32) in words to f32 values, and round f32 values
  /// to elements packed in words.
  SmallVector<Value> unpackFloats(ArrayRef<Value> words, Type elementType);
  SmallVector<Value> packFloats(ArrayRef<Value> values, Type elementType);

  //===--------------------------------------------------------------------===//
  // Control flow
  //
  // A body returns its yielded values: none, one or several. The method that
  // creates the operation returns the results likewise.
  //===--------------------------------------------------------------------===//

  /// Creates an scf.if. For a constant condition only the taken branch is
  /// emitted.
  template <typename Then, typename Else>
  auto createIf(Value condition, Then thenBody, Else elseBody) {
    return deliver<std::invoke_result_t<Then>>(buildIf(
        condition, [&] { return collect(thenBody); },
        [&] { return collect(elseBody); }));
  }
  template <typename Then> void createIf(Value condition, Then thenBody) {
    buildIf(condition, [&] { return collect(thenBody); }, nullptr);
  }
  /// Creates an scf.for. `body` gets the index and the loop-carried values, as
  /// one Value or a ValueRange.
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
  /// Creates a loop with few expected iterations, which no compiler unrolls.
  /// Unrolling would take registers from the surrounding code.
  template <typename Body>
  auto createRareFor(Value lower, Value upper, Operand step, ValueRange init,
                     Body body) {
    return createFor(lower, upper, step, init, body, /*isRare=*/true);
  }
  template <typename Body>
  void createRareFor(Value lower, Value upper, Operand step, Body body) {
    createRareFor(lower, upper, step, ValueRange(), body);
  }
  /// Creates an scf.while. `before` returns the condition, and the values of
  /// `types` that `body` gets. Returns these values after the last `before`.
  SmallVector<Value> createWhile(
      ValueRange init, TypeRange types,
      function_ref<std::pair<Value, SmallVector<Value>>(ValueRange)> before,
      function_ref<SmallVector<Value>(ValueRange)> body);
  /// Repeats `body` on the loop-carried values while `goesOn` returns true.
  SmallVector<Value>
  createWhile(ValueRange init, function_ref<Value(ValueRange)> goesOn,
              function_ref<SmallVector<Value>(ValueRange)> body);
  /// Runs `body` for every work tile in [0, workTiles) in a grid-stride loop: a
  /// grid of any size computes the same. The index is uniform in the block.
  /// Needs a kernel with a block count.
  ///
  /// With `mostlyOne`, for grids where most blocks have one tile, no
  /// loop-invariant code runs before the first tile. Its results would hold
  /// registers for the next tile.
  void forEachWorkTile(Value workTiles, function_ref<void(Value workTile)> body,
                       bool mostlyOne = false);

  //===--------------------------------------------------------------------===//
  // Threads together
  //===--------------------------------------------------------------------===//

  void createBarrier();
  /// Return `value` (i32) of lane `lane ^ mask`, or of lane `lane` (i32).
  Value shuffleXor(Value value, int64_t mask);
  Value shuffleIndex(Value value, Value lane);
  /// Returns `value` (i32) of this lane and of lane `lane ^ mask`, in either
  /// order, for commutative operations.
  std::pair<Value, Value> exchange(Value value, int64_t mask);
  /// Combines `value` (i32) over the lanes whose numbers agree modulo `stride`.
  Value reduceLanes(Value value, int64_t stride,
                    function_ref<Value(Value, Value)> combine);
  /// Returns the largest `value` (i32, unsigned) of all lanes.
  Value maxOfLanes(Value value);
  /// Inclusive scan: combines `value` (i32) of all lanes up to this one, which
  /// is `lane` (i32).
  Value scanLanes(Value value, Value lane,
                  function_ref<Value(Value, Value)> combine);
  /// Inclusive scan as scanLanes, for an idempotent operation.
  Value scanLanesIdempotent(Value value, Value lane,
                            function_ref<Value(Value, Value)> combine);
  /// Returns `value` (i32) of the previous lane; `lane` (i32) is this one. The
  /// first lane gets its own value.
  Value shiftLanes(Value value, Value lane);
  /// Returns `value` (i32), which must be the same in all lanes, as a uniform
  /// value.
  Value uniform(Value value) { return kernel::UniformOp::create(*this, value); }
  /// Whether `condition` (i1) holds in any lane.
  Value voteAny(Value condition) {
    return kernel::VoteAnyOp::create(*this, condition);
  }
  /// Returns an integer with a bit for each lane, set where `condition` (i1)
  /// holds.
  Value ballot(Value condition) {
    return kernel::BallotOp::create(*this, getIntegerType(getSubgroupSize()),
                                    condition);
  }
  /// Barrier of the subgroup's lanes. Earlier writes of each lane to memory are
  /// visible to all lanes afterwards.
  void syncSubgroup() { kernel::SubgroupBarrierOp::create(*this); }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// Allocates `bytes` of shared memory, aligned to 16.
  Value allocateShared(int64_t bytes, StringRef name);
  /// Returns the dynamic shared memory of the launch. It is aligned to 1024
  /// bytes, as tensor maps with a swizzle of 128 bytes require. The kernels of
  /// a module share the symbol; each launch sets the size.
  Value getDynamicShared();
  /// Allocates a word of global memory that all launches of the kernel share.
  /// It is zero when the kernel is loaded, and keeps its value between
  /// launches.
  Value allocateGlobalWord(StringRef name);
  Value offsetBytes(Value pointer, Operand bytes);
  /// Loads a value. `readOnly` promises that the memory does not change while
  /// the kernel runs.
  Value load(Type type, Value pointer, int64_t alignment,
             bool readOnly = false);
  void store(Value value, Value pointer, int64_t alignment);
  /// Load and store an i32. storeWord takes any value of four bytes.
  Value loadWord(Value pointer, bool readOnly = false) {
    return load(getI32Type(), pointer, kWordBytes, readOnly);
  }
  void storeWord(Value word, Value pointer) {
    store(word, pointer, kWordBytes);
  }

  // Atomic accesses of an i32 at the scope of the device. Relaxed ones order
  // nothing else; fences do.

  Value loadRelaxed(Value pointer);
  /// Acquire load: writes released before the loaded word was stored are
  /// visible afterwards. Takes less time than a fence.
  Value loadAcquire(Value pointer);
  void storeRelaxed(Value word, Value pointer);
  /// Device-scope fence. Orders this thread's earlier accesses, and those it
  /// observed through barriers, before its later ones for every thread of the
  /// device.
  void createDeviceFence();

private:
  Value loadAtomic(Value pointer, LLVM::AtomicOrdering ordering);
  /// Returns the values that `body` returns as a vector.
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
  /// Converts values back to `Result`, the return type of a body.
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

/// Returns a problem's sizes as values. Dynamic sizes are the kernel's
/// parameters from `parameter` on; `parameter` is advanced past them.
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
