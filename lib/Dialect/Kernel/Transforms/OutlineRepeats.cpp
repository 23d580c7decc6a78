//===- OutlineRepeats.cpp - Functions for repeated steps of kernels -------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::fp8moe::kernel {
#define GEN_PASS_DEF_OUTLINEREPEATS
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe::kernel

using namespace mlir;

/// Functions that save fewer lines cost more to look up than to read twice.
static constexpr int64_t kMinSavedLines = 10;

/// The elements of a struct or vector as the results of one operation behind
/// it; nothing where their number is not known.
static ValueRange createElements(OpBuilder &builder, Value whole) {
  builder.setInsertionPointAfterValue(whole);
  if (auto type = dyn_cast<LLVM::LLVMStructType>(whole.getType()))
    return UnrealizedConversionCastOp::create(builder, whole.getLoc(),
                                              type.getBody(), whole)
        .getResults();
  auto type = dyn_cast<VectorType>(whole.getType());
  if (!type || type.getRank() != 1 || type.isScalable())
    return {};
  return vector::ToElementsOp::create(builder, whole.getLoc(), whole)
      .getResults();
}

// %1 = vector.extract %0[1] : ...  -->  %1:4 = vector.to_elements %0 : ...
/// Operations that differ only in the element that they take become equal.
static void takeAllElements(Operation *kernel) {
  DenseMap<Value, ValueRange> elements;
  OpBuilder builder(kernel->getContext());
  kernel->walk([&](Operation *op) {
    ArrayRef<int64_t> position;
    if (auto extract = dyn_cast<LLVM::ExtractValueOp>(op))
      position = extract.getPosition();
    else if (auto extract = dyn_cast<vector::ExtractOp>(op))
      position = extract.getStaticPosition();
    if (position.size() != 1 || op->getNumOperands() != 1)
      return;
    auto [entry, isNew] = elements.try_emplace(op->getOperand(0));
    if (isNew)
      entry->second = createElements(builder, op->getOperand(0));
    // -1 is an element of which nothing is known.
    size_t element = position.front();
    if (element >= entry->second.size())
      return;
    op->getResult(0).replaceAllUsesWith(entry->second[element]);
    op->erase();
  });
}

namespace {
/// The operations that a step of the kernel emitted into one block: one after
/// another, but for constants.
struct Place {
  /// The location that the builder of the kernel gave them.
  FusedLocWith<DistinctAttr> step;
  SmallVector<Operation *> ops;

  StringRef getName() const {
    return cast<StringAttr>(step.getMetadata().getReferencedAttr()).getValue();
  }
  bool contains(Operation *op) const {
    Block *block = ops.front()->getBlock();
    return llvm::is_contained(ops, block->findAncestorOpInBlock(*op));
  }
  bool defines(Value value) const {
    Operation *op = value.getDefiningOp();
    return contains(op ? op : value.getParentBlock()->getParentOp());
  }
  bool isEqualTo(const Place &other) const;
};

/// Equal places, which become calls of one function.
struct Repeat {
  SmallVector<Place> places;
  /// For each place its operands from outside, in the order of operations.
  SmallVector<SmallVector<OpOperand *>> inputs;
  /// For each of them the number of its parameter.
  SmallVector<unsigned> parameters;
  /// For each parameter its value at each place.
  SmallVector<SmallVector<Value>> arguments;
  /// The results that are used outside of any place.
  BitVector outputs;
  int64_t savedLines = 0;

  void finish();
  SmallVector<Value> getOutputs(const Place &place) const;
  func::FuncOp outline(SymbolTable &symbols) const;
};
} // namespace

/// Whether operations are the same and refer to each other alike. Operands from
/// outside may differ.
bool Place::isEqualTo(const Place &other) const {
  DenseMap<Value, Value> partners;
  auto check = [&](Value own, Value others) {
    Value partner = partners.lookup(own);
    return success(own.getType() == others.getType() &&
                   (partner ? partner == others : !other.defines(others)));
  };
  auto mark = [&](Value own, Value others) { partners[own] = others; };
  auto areEqual = [&](Operation *op, Operation *others) {
    return OperationEquivalence::isEquivalentTo(
        op, others, check, mark, OperationEquivalence::IgnoreLocations);
  };
  return getName() == other.getName() && llvm::equal(ops, other.ops, areEqual);
}

/// Decides on parameters and results, once all places are known.
void Repeat::finish() {
  int64_t calls = places.size(), lines = 0;
  for (const Place &place : places) {
    BitVector used;
    inputs.emplace_back();
    for (Operation *top : place.ops) {
      for (Value result : top->getResults())
        used.push_back(!llvm::all_of(result.getUsers(), [&](Operation *user) {
          return place.contains(user);
        }));
      top->walk<WalkOrder::PreOrder>([&](Operation *op) {
        // A loop or branch ends with a bracket.
        lines += op->getNumRegions() ? 2 : 1;
        for (OpOperand &operand : op->getOpOperands())
          if (!place.defines(operand.get()))
            inputs.back().push_back(&operand);
      });
    }
    outputs.resize(used.size());
    outputs |= used;
  }
  for (size_t index : llvm::seq(inputs.front().size())) {
    SmallVector<Value> values = llvm::map_to_vector(
        inputs, [&](const auto &operands) { return operands[index]->get(); });
    auto known = llvm::find(arguments, values);
    parameters.push_back(known - arguments.begin());
    if (known == arguments.end())
      arguments.push_back(values);
  }
  // Each call is a line, and so is each constant of the function. Parameters
  // and results must be looked up.
  savedLines =
      lines - lines / calls - calls - arguments.size() - outputs.count();
}

SmallVector<Value> Repeat::getOutputs(const Place &place) const {
  SmallVector<Value> results;
  for (Operation *op : place.ops)
    llvm::append_range(results, op->getResults());
  return llvm::map_to_vector(outputs.set_bits(),
                             [&](unsigned index) { return results[index]; });
}

/// The name of those values that have one, if all have the same.
static Location getCommonName(ArrayRef<Value> values) {
  llvm::SmallSetVector<StringAttr, 2> names;
  for (Value value : values)
    if (auto name = dyn_cast<NameLoc>(value.getLoc()))
      names.insert(name.getName());
  Location unknown = UnknownLoc::get(values.front().getContext());
  return names.size() == 1 ? NameLoc::get(names.front(), unknown) : unknown;
}

func::FuncOp Repeat::outline(SymbolTable &symbols) const {
  const Place &body = places.front();
  OpBuilder builder(body.step.getContext());
  auto function = func::FuncOp::create(
      builder, body.step, body.getName(),
      builder.getFunctionType({}, ValueRange(getOutputs(body)).getTypes()));
  function.setPrivate();
  auto isTaken = [&](StringRef name) { return symbols.lookup(name); };
  unsigned next = 2;
  if (isTaken(body.getName()))
    function.setName(
        SymbolTable::generateSymbolName<32>(body.getName(), isTaken, next));
  symbols.insert(function);
  builder.setInsertionPointToStart(function.addEntryBlock());
  // The parameters in the function. One that is the same constant at all places
  // is that constant.
  SmallVector<Value> values;
  for (ArrayRef<Value> given : arguments) {
    Value value = given.front();
    if (llvm::all_equal(given) && matchPattern(value, m_Constant())) {
      values.push_back(builder.clone(*value.getDefiningOp())->getResult(0));
      continue;
    }
    (void)function.insertArgument(function.getNumArguments(), value.getType(),
                                  {}, getCommonName(given));
    values.push_back(function.getArguments().back());
  }
  for (auto [place, operands] : llvm::zip_equal(places, inputs)) {
    SmallVector<Value> passed(function.getNumArguments());
    for (auto [operand, parameter] : llvm::zip_equal(operands, parameters))
      if (auto argument = dyn_cast<BlockArgument>(values[parameter]))
        passed[argument.getArgNumber()] = operand->get();
    // One result keeps its name, several have that of the function.
    SmallVector<Value> results = getOutputs(place);
    StringAttr name = function.getSymNameAttr();
    if (results.size() == 1)
      if (auto own = dyn_cast<NameLoc>(results.front().getLoc()))
        name = own.getName();
    // The call belongs to the steps around this one.
    builder.setInsertionPoint(place.ops.back());
    auto call = func::CallOp::create(
        builder, NameLoc::get(name, place.step.getLocations().front()),
        function, passed);
    for (auto [result, called] : llvm::zip_equal(results, call.getResults()))
      result.replaceUsesWithIf(called, [&place = place](OpOperand &use) {
        return !place.contains(use.getOwner());
      });
  }
  for (auto [operand, parameter] : llvm::zip_equal(inputs.front(), parameters))
    operand->set(values[parameter]);
  for (Operation *op : body.ops)
    op->moveBefore(&function.front(), function.front().end());
  builder.setInsertionPointToEnd(&function.front());
  func::ReturnOp::create(builder, body.step, getOutputs(body));
  for (const Place &place : llvm::drop_begin(places))
    for (Operation *op : llvm::reverse(place.ops))
      op->erase();
  return function;
}

/// Adds the places of all steps in a block.
static void findPlaces(Block *block, SmallVectorImpl<Place> &places) {
  llvm::MapVector<Location, Place> found;
  Operation *previous = nullptr;
  for (Operation &op : block->without_terminator()) {
    if (op.hasTrait<OpTrait::ConstantLike>())
      continue;
    op.getLoc()->walk([&](Location loc) {
      auto step = dyn_cast<FusedLocWith<DistinctAttr>>(loc);
      if (step && isa<StringAttr>(step.getMetadata().getReferencedAttr())) {
        Place &place = found.try_emplace(loc, Place{step, {}}).first->second;
        if (place.ops.empty() || place.ops.back() == previous)
          place.ops.push_back(&op);
      }
      return WalkResult::advance();
    });
    previous = &op;
  }
  for (auto &[step, place] : found)
    places.push_back(std::move(place));
}

/// The repeat in a kernel and its functions that saves most lines.
static Repeat findBest(ArrayRef<Operation *> functions) {
  SmallVector<Place> places;
  for (Operation *function : functions)
    function->walk<WalkOrder::PreOrder>(
        [&](Block *block) { findPlaces(block, places); });
  SmallVector<Repeat, 0> repeats;
  for (Place &place : places) {
    auto repeat = llvm::find_if(repeats, [&](const Repeat &known) {
      return known.places.front().isEqualTo(place);
    });
    if (repeat == repeats.end())
      repeat = repeats.insert(repeats.end(), Repeat());
    // A pattern that joins two operations gives the result the steps of both.
    else if (repeat->places.back().contains(place.ops.front()))
      continue;
    repeat->places.push_back(std::move(place));
  }
  Repeat best;
  for (Repeat &repeat : repeats) {
    repeat.finish();
    if (repeat.savedLines > best.savedLines)
      best = std::move(repeat);
  }
  return best;
}

/// Puts functions behind the kernel in the order of their first calls, each
/// before those that only it calls.
static void sortFunctions(gpu::GPUFuncOp kernel, SymbolTable &symbols) {
  llvm::SetVector<Operation *> order;
  order.insert(kernel);
  for (size_t index = 0; index < order.size(); ++index) {
    if (index)
      order[index]->moveAfter(order[index - 1]);
    order[index]->walk([&](func::CallOp call) {
      order.insert(symbols.lookup(call.getCallee()));
    });
  }
}

namespace {
struct OutlineRepeats
    : fp8moe::kernel::impl::OutlineRepeatsBase<OutlineRepeats> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    auto kernels = llvm::to_vector(getOperation().getOps<gpu::GPUFuncOp>());
    for (gpu::GPUFuncOp kernel : kernels) {
      takeAllElements(kernel);
      SmallVector<Operation *> functions{kernel};
      for (Repeat best = findBest(functions); best.savedLines >= kMinSavedLines;
           best = findBest(functions))
        functions.push_back(best.outline(symbols));
      sortFunctions(kernel, symbols);
    }
  }
};
} // namespace
