//===- OutlineRepeats.cpp - Functions for repeated code of kernels --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/SuffixTree.h"

namespace mlir::fp8moe::kernel {
#define GEN_PASS_DEF_OUTLINEREPEATS
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe::kernel

using namespace mlir;

/// Shorter functions, and those that save fewer lines, cost more to look up
/// than to read twice.
static constexpr int64_t kMinSavedLines = 10;
static constexpr int64_t kMinLines = 4;

//===----------------------------------------------------------------------===//
// Numbers in attributes
//===----------------------------------------------------------------------===//

/// The elements of an aggregate as the results of one operation behind it.
static ValueRange createElements(OpBuilder &builder, Value aggregate) {
  builder.setInsertionPointAfterValue(aggregate);
  Location loc = aggregate.getLoc();
  if (auto type = dyn_cast<LLVM::LLVMStructType>(aggregate.getType()))
    return UnrealizedConversionCastOp::create(builder, loc, type.getBody(),
                                              aggregate)
        .getResults();
  return vector::ToElementsOp::create(builder, loc, aggregate).getResults();
}

/// How many elements of an aggregate `createElements` makes; none of others.
static int64_t countElements(Value aggregate) {
  Type type = aggregate.getType();
  if (auto members = dyn_cast<LLVM::LLVMStructType>(type))
    return members.getBody().size();
  auto vector = dyn_cast<VectorType>(type);
  bool isSimple = vector && vector.getRank() == 1 && !vector.isScalable();
  return isSimple ? vector.getNumElements() : 0;
}

/// The aggregate that an operation takes one element from, and the element's
/// number; a null value for other operations.
static std::pair<Value, int64_t> getExtracted(Operation *op) {
  if (auto extract = dyn_cast<LLVM::ExtractValueOp>(op))
    if (extract.getPosition().size() == 1)
      return {extract.getContainer(), extract.getPosition().front()};
  APInt position;
  if (auto extract = dyn_cast<LLVM::ExtractElementOp>(op))
    if (matchPattern(extract.getPosition(), m_ConstantInt(&position)))
      return {extract.getVector(), position.getSExtValue()};
  if (auto extract = dyn_cast<vector::ExtractOp>(op))
    if (extract.getStaticPosition().size() == 1 &&
        !extract.hasDynamicPosition())
      return {extract.getSource(), extract.getStaticPosition().front()};
  return {};
}

// %1 = llvm.extractvalue %0[1]  -->  %1:2 = vector.to_elements %0
/// Operations that differ only in the element that they take become equal.
static void takeAllElements(Operation *kernel) {
  DenseMap<Value, ValueRange> elements;
  OpBuilder builder(kernel->getContext());
  kernel->walk([&](Operation *op) {
    auto [aggregate, number] = getExtracted(op);
    if (!aggregate || number < 0 || number >= countElements(aggregate))
      return;
    auto [entry, isNew] = elements.try_emplace(aggregate);
    if (isNew)
      entry->second = createElements(builder, aggregate);
    op->getResult(0).replaceAllUsesWith(entry->second[number]);
    op->erase();
  });
}

//===----------------------------------------------------------------------===//
// Sequences of operations
//===----------------------------------------------------------------------===//

namespace {
/// Operations of one block, one after another but for constants.
using Sequence = ArrayRef<Operation *>;

/// How operations of a sequence refer to each other, and to others.
struct Wiring {
  /// For each operand the number of the value in the sequence, or -1.
  SmallVector<int64_t> sources;
  /// Operands that the sequence does not define, in the order of `sources`.
  SmallVector<OpOperand *> inputs;

  explicit Wiring(Sequence sequence);
};
} // namespace

Wiring::Wiring(Sequence sequence) {
  DenseMap<Value, int64_t> numbers;
  auto number = [&](ValueRange values) {
    for (Value value : values)
      numbers.try_emplace(value, numbers.size());
  };
  for (Operation *top : sequence)
    top->walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands()) {
        auto source = numbers.find(operand.get());
        sources.push_back(source == numbers.end() ? -1 : source->second);
        if (source == numbers.end())
          inputs.push_back(&operand);
      }
      number(op->getResults());
      for (Region &region : op->getRegions())
        for (Block &block : region)
          number(block.getArguments());
    });
}

/// Everything of an operation but its operands.
static llvm::hash_code hashForm(Operation *op) {
  llvm::hash_code hash = OperationEquivalence::computeHash(
      op, OperationEquivalence::ignoreHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
  auto addTypes = [&](TypeRange types) {
    for (Type type : types)
      hash = llvm::hash_combine(hash, type);
  };
  addTypes(op->getOperandTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      addTypes(block.getArgumentTypes());
      for (Operation &nested : block)
        hash = llvm::hash_combine(hash, hashForm(&nested));
    }
  return hash;
}

/// Lines of printed operations.
static int64_t countLines(Sequence sequence) {
  int64_t lines = 0;
  for (Operation *top : sequence)
    top->walk([&](Operation *op) {
      // A loop or branch ends with a bracket, or yields what it computes.
      lines += op->getNumRegions() != 0;
      lines += !op->hasTrait<OpTrait::IsTerminator>() || op->getNumOperands();
    });
  return lines;
}

/// The steps of the kernel that an operation belongs to, from the outermost one
/// on: the metadata of its location.
static SmallVector<StringRef> getSteps(Operation *op) {
  SmallVector<StringRef> steps;
  for (Location loc = op->getLoc();;) {
    if (auto name = dyn_cast<NameLoc>(loc)) {
      loc = name.getChildLoc();
    } else if (auto step = dyn_cast<FusedLocWith<StringAttr>>(loc)) {
      steps.push_back(step.getMetadata());
      loc = step.getLocations().front();
    } else {
      std::reverse(steps.begin(), steps.end());
      return steps;
    }
  }
}

/// The innermost step that all operations are part of; the first two steps
/// where there is none.
static std::string getName(ArrayRef<Sequence> sequences) {
  llvm::SetVector<StringRef> outermost;
  std::optional<SmallVector<StringRef>> common;
  for (Sequence sequence : sequences)
    for (Operation *op : sequence) {
      SmallVector<StringRef> steps = getSteps(op);
      // Sizes and addresses between the steps have none.
      if (steps.empty())
        continue;
      outermost.insert(steps.front());
      if (!common)
        common = steps;
      llvm::erase_if(*common, [&](StringRef step) {
        return !llvm::is_contained(steps, step);
      });
    }
  if (!common)
    return "part";
  if (!common->empty())
    return common->back().str();
  return (outermost[0] + "_" + outermost[1]).str();
}

/// The results of a sequence that others use, by their numbers among all.
static BitVector findOutputs(Sequence sequence) {
  auto isOutside = [&](Operation *user) {
    Operation *top = sequence.front()->getBlock()->findAncestorOpInBlock(*user);
    return !top || sequence.back()->isBeforeInBlock(top);
  };
  BitVector outputs;
  for (Operation *op : sequence)
    for (Value result : op->getResults())
      outputs.push_back(llvm::any_of(result.getUsers(), isOutside));
  return outputs;
}

static SmallVector<Value> getResults(Sequence sequence,
                                     const BitVector &outputs) {
  SmallVector<Value> all, results;
  for (Operation *op : sequence)
    llvm::append_range(all, op->getResults());
  for (unsigned index : outputs.set_bits())
    results.push_back(all[index]);
  return results;
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

namespace {
/// Sequences that compute the same from different values.
struct Repeat {
  SmallVector<Sequence> places;
  /// For each operand from outside the number of its parameter.
  SmallVector<int64_t> parameters;
  /// For each parameter its value at each place.
  SmallVector<SmallVector<Value>> arguments;
  /// The results that are used behind any place.
  BitVector outputs;
  int64_t savedLines = 0;

  Repeat() = default;
  Repeat(ArrayRef<Sequence> places, ArrayRef<Wiring> wirings);
  /// Whether a parameter is one constant at all places.
  bool isConstant(ArrayRef<Value> values) const {
    return llvm::all_equal(values) &&
           matchPattern(values.front(), m_Constant());
  }
};
} // namespace

Repeat::Repeat(ArrayRef<Sequence> places, ArrayRef<Wiring> wirings)
    : places(places) {
  for (Sequence place : places) {
    BitVector used = findOutputs(place);
    outputs.resize(used.size());
    outputs |= used;
  }
  for (size_t index : llvm::seq(wirings.front().inputs.size())) {
    SmallVector<Value> values =
        llvm::map_to_vector(wirings, [&](const Wiring &wiring) {
          return wiring.inputs[index]->get();
        });
    auto known = llvm::find(arguments, values);
    parameters.push_back(known - arguments.begin());
    if (known == arguments.end())
      arguments.push_back(values);
  }
  // Each call is a line, and so is each constant of the function. Parameters
  // and results must be looked up.
  int64_t calls = places.size();
  savedLines = (calls - 1) * countLines(places.front()) - calls -
               arguments.size() - outputs.count();
}

//===----------------------------------------------------------------------===//
// The kernel as a text
//===----------------------------------------------------------------------===//

namespace {
/// Finds what a kernel repeats, and makes functions of it.
class Outliner {
public:
  explicit Outliner(gpu::GPUFuncOp kernel)
      : module(kernel->getParentOp()), builder(kernel), functions{kernel} {}

  void run() {
    for (Repeat best = findBest(); best.savedLines >= kMinSavedLines;
         best = findBest())
      outline(best);
    sortFunctions();
  }

private:
  void readText();
  SmallVector<llvm::SuffixTree::RepeatedSubstring> findCandidates();
  Repeat findBest();
  Repeat select(const llvm::SuffixTree::RepeatedSubstring &candidate);
  std::string makeUnique(StringRef name);
  func::FuncOp createFunction(const Repeat &repeat);
  void outline(const Repeat &repeat);
  void sortFunctions();

  Operation *module;
  OpBuilder builder;
  /// The kernel and the functions so far.
  SmallVector<Operation *> functions;
  /// All operations but constants, null at the ends of blocks.
  SmallVector<Operation *> text;
  /// Equal where operations have the same form.
  SmallVector<unsigned> letters;
};
} // namespace

void Outliner::readText() {
  text.clear();
  letters.clear();
  DenseMap<size_t, unsigned> known;
  auto readBlock = [&](Block *block) {
    for (Operation &op : *block) {
      if (op.hasTrait<OpTrait::ConstantLike>())
        continue;
      // The end of a block has a letter of its own, so that nothing repeats it.
      bool isEnd = op.hasTrait<OpTrait::IsTerminator>();
      auto entry = known.try_emplace(
          isEnd ? llvm::hash_value(&op) : hashForm(&op), known.size());
      text.push_back(isEnd ? nullptr : &op);
      letters.push_back(entry.first->second);
    }
  };
  for (Operation *function : functions)
    function->walk<WalkOrder::PreOrder>(readBlock);
}

/// Strings of letters that occur more than once.
SmallVector<llvm::SuffixTree::RepeatedSubstring> Outliner::findCandidates() {
  SmallVector<llvm::SuffixTree::RepeatedSubstring> candidates;
  llvm::SuffixTree tree(letters, /*OutlinerLeafDescendants=*/true);
  for (llvm::SuffixTree::RepeatedSubstring &repeated : tree)
    candidates.push_back(repeated);
  // The tree has only strings of several letters.
  llvm::MapVector<unsigned, SmallVector<unsigned>> loops;
  for (auto [index, op] : llvm::enumerate(text))
    if (op && op->getNumRegions())
      loops[letters[index]].push_back(index);
  for (auto &[letter, starts] : loops)
    if (starts.size() > 1)
      candidates.push_back({1, starts});
  return candidates;
}

/// Finds places of a candidate that do not overlap, and whose operations refer
/// to each other as at most places.
Repeat Outliner::select(const llvm::SuffixTree::RepeatedSubstring &candidate) {
  struct Group {
    SmallVector<Sequence> places;
    SmallVector<Wiring> wirings;
    unsigned end = 0;
  };
  SmallVector<Group> groups;
  SmallVector<unsigned> starts(candidate.StartIndices);
  llvm::sort(starts);
  for (unsigned start : starts) {
    Sequence place = ArrayRef(text).slice(start, candidate.Length);
    Wiring wiring(place);
    auto group = llvm::find_if(groups, [&](const Group &group) {
      return group.wirings.front().sources == wiring.sources;
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), Group());
    if (start < group->end)
      continue;
    group->places.push_back(place);
    group->wirings.push_back(std::move(wiring));
    group->end = start + candidate.Length;
  }
  auto largest = llvm::max_element(groups, [](const Group &a, const Group &b) {
    return a.places.size() < b.places.size();
  });
  return Repeat(largest->places, largest->wirings);
}

Repeat Outliner::findBest() {
  readText();
  SmallVector<llvm::SuffixTree::RepeatedSubstring> candidates =
      findCandidates();
  auto getBound = [&](const llvm::SuffixTree::RepeatedSubstring &candidate) {
    Sequence first =
        ArrayRef(text).slice(candidate.StartIndices.front(), candidate.Length);
    return static_cast<int64_t>(candidate.StartIndices.size() - 1) *
           countLines(first);
  };
  SmallVector<std::pair<int64_t, unsigned>> order;
  for (auto [index, candidate] : llvm::enumerate(candidates))
    order.push_back({-getBound(candidate), index});
  llvm::sort(order);
  Repeat best;
  for (auto [bound, index] : order) {
    if (-bound <= best.savedLines)
      break;
    Repeat repeat = select(candidates[index]);
    if (countLines(repeat.places.front()) < kMinLines)
      continue;
    if (repeat.savedLines > best.savedLines)
      best = std::move(repeat);
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::string Outliner::makeUnique(StringRef name) {
  std::string unique = name.str();
  for (int64_t number = 2; SymbolTable::lookupSymbolIn(module, unique);
       ++number)
    unique = (name + "_" + Twine(number)).str();
  return unique;
}

/// The name that all values have.
static Location getCommonName(ArrayRef<Value> values) {
  Location unknown = UnknownLoc::get(values.front().getContext());
  StringAttr common;
  for (Value value : values) {
    auto name = dyn_cast<NameLoc>(value.getLoc());
    if (!name || (common && common != name.getName()))
      return unknown;
    common = name.getName();
  }
  return NameLoc::get(common, unknown);
}

func::FuncOp Outliner::createFunction(const Repeat &repeat) {
  Sequence first = repeat.places.front();
  SmallVector<Type> types;
  SmallVector<Location> locs;
  for (ArrayRef<Value> values : repeat.arguments)
    if (!repeat.isConstant(values)) {
      types.push_back(values.front().getType());
      locs.push_back(getCommonName(values));
    }
  SmallVector<Value> results = getResults(first, repeat.outputs);
  builder.setInsertionPointAfter(functions.back());
  auto function = func::FuncOp::create(
      builder, first.front()->getLoc(), makeUnique(getName(repeat.places)),
      builder.getFunctionType(types, ValueRange(results).getTypes()));
  function.setPrivate();
  functions.push_back(function);

  Block *body = builder.createBlock(&function.getBody(), {}, types, locs);
  SmallVector<Value> inputs;
  unsigned argument = 0;
  for (ArrayRef<Value> values : repeat.arguments)
    if (repeat.isConstant(values))
      inputs.push_back(
          builder.clone(*values.front().getDefiningOp())->getResult(0));
    else
      inputs.push_back(body->getArgument(argument++));
  IRMapping mapping;
  SmallVector<Operation *> clones;
  for (Operation *op : first)
    clones.push_back(builder.clone(*op, mapping));
  for (auto [operand, parameter] :
       llvm::zip_equal(Wiring(clones).inputs, repeat.parameters))
    operand->set(inputs[parameter]);
  func::ReturnOp::create(builder, first.back()->getLoc(),
                         getResults(clones, repeat.outputs));
  return function;
}

void Outliner::outline(const Repeat &repeat) {
  func::FuncOp function = createFunction(repeat);
  for (Sequence place : repeat.places) {
    // Values of the repeat itself may be results of a place before.
    SmallVector<Value> all(repeat.arguments.size()), arguments;
    for (auto [operand, parameter] :
         llvm::zip_equal(Wiring(place).inputs, repeat.parameters))
      all[parameter] = operand->get();
    for (auto [value, values] : llvm::zip_equal(all, repeat.arguments))
      if (!repeat.isConstant(values))
        arguments.push_back(value);
    SmallVector<Value> results = getResults(place, repeat.outputs);
    Location loc = place.front()->getLoc();
    if (auto name = dyn_cast<NameLoc>(loc))
      loc = name.getChildLoc();
    // Several results are named after the function.
    StringAttr name = function.getSymNameAttr();
    if (results.size() == 1)
      if (auto own = dyn_cast<NameLoc>(results.front().getLoc()))
        name = own.getName();
    loc = NameLoc::get(name, loc);
    builder.setInsertionPoint(place.back());
    auto call = func::CallOp::create(builder, loc, function, arguments);
    for (auto [result, called] : llvm::zip_equal(results, call.getResults()))
      result.replaceAllUsesWith(called);
    for (Operation *op : llvm::reverse(place))
      op->erase();
  }
}

/// Puts functions behind the kernel in the order of their first calls, each
/// before those that only it calls.
void Outliner::sortFunctions() {
  llvm::SetVector<Operation *> order(functions.begin(), functions.begin() + 1);
  for (size_t index = 0; index < order.size(); ++index)
    order[index]->walk([&](func::CallOp call) {
      order.insert(SymbolTable::lookupSymbolIn(module, call.getCallee()));
    });
  for (size_t index : llvm::seq<size_t>(1, order.size()))
    order[index]->moveAfter(order[index - 1]);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct OutlineRepeats
    : fp8moe::kernel::impl::OutlineRepeatsBase<OutlineRepeats> {
  void runOnOperation() override {
    SmallVector<gpu::GPUFuncOp> kernels(
        getOperation().getOps<gpu::GPUFuncOp>());
    for (gpu::GPUFuncOp kernel : kernels) {
      takeAllElements(kernel);
      Outliner(kernel).run();
    }
  }
};
} // namespace
