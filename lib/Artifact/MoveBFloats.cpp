//===- MoveBFloats.cpp - bf16 values that are only moved ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// x86 keeps bf16 values in registers as f32. A load that is chosen or merged
// with another value before it is stored again would be converted, by a call
// or by an instruction that flushes subnormals; as an integer it stays what it
// is.
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace {
/// Gives values of one function that are loaded, merged, chosen and stored
/// integer types.
class BFloatMover {
public:
  explicit BFloatMover(Function &function) : function(function) {}

  void run();

private:
  /// Whether an instruction moves what it takes to what it makes.
  static bool moves(const Instruction &instruction) {
    return isa<LoadInst, PHINode, SelectInst, FreezeInst>(instruction) &&
           instruction.getType()->getScalarType()->isBFloatTy();
  }
  static Type *getIntegerType(Type *type) {
    return type->getWithNewType(Type::getInt16Ty(type->getContext()));
  }
  Instruction *createMove(Instruction &instruction);
  Value *getInteger(Value *value, Instruction &user);
  void foldRoundTrips();

  Function &function;
  MapVector<Instruction *, Instruction *> integers;
};
} // namespace

/// The integer form of `instruction`, the operands of which may come later.
Instruction *BFloatMover::createMove(Instruction &instruction) {
  IRBuilder<> builder(&instruction);
  Type *type = getIntegerType(instruction.getType());
  if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    LoadInst *result = builder.CreateAlignedLoad(
        type, load->getPointerOperand(), load->getAlign(), load->isVolatile());
    result->setAtomic(load->getOrdering(), load->getSyncScopeID());
    result->setAAMetadata(load->getAAMetadata());
    return result;
  }
  if (auto *phi = dyn_cast<PHINode>(&instruction))
    return builder.CreatePHI(type, phi->getNumIncomingValues());
  Value *poison = PoisonValue::get(type);
  if (auto *select = dyn_cast<SelectInst>(&instruction))
    return SelectInst::Create(select->getCondition(), poison, poison, "",
                              instruction.getIterator());
  return new FreezeInst(poison, "", instruction.getIterator());
}

/// The integer form of an operand of `user`.
Value *BFloatMover::getInteger(Value *value, Instruction &user) {
  if (auto *instruction = dyn_cast<Instruction>(value))
    if (Instruction *integer = integers.lookup(instruction))
      return integer;
  IRBuilder<> builder(&user);
  return builder.CreateBitCast(value, getIntegerType(value->getType()));
}

/// Integers that become floats only to become integers again stay integers: the
/// casts may be in different blocks, between which a register would hold f32.
void BFloatMover::foldRoundTrips() {
  SetVector<Instruction *> casts;
  for (Instruction &instruction : instructions(function)) {
    auto *toInteger = dyn_cast<BitCastInst>(&instruction);
    if (!toInteger || !toInteger->getSrcTy()->getScalarType()->isBFloatTy())
      continue;
    auto *toFloat = dyn_cast<BitCastInst>(toInteger->getOperand(0));
    if (!toFloat || toFloat->getSrcTy() != toInteger->getDestTy())
      continue;
    toInteger->replaceAllUsesWith(toFloat->getOperand(0));
    casts.insert(toFloat);
    casts.insert(toInteger);
  }
  // Casts to integers first, as they use the others.
  for (Instruction *cast : reverse(casts))
    if (cast->use_empty())
      cast->eraseFromParent();
}

void BFloatMover::run() {
  SmallVector<StoreInst *> stores;
  for (Instruction &instruction : instructions(function)) {
    if (moves(instruction))
      integers[&instruction] = nullptr;
    else if (auto *store = dyn_cast<StoreInst>(&instruction))
      if (store->getValueOperand()->getType()->getScalarType()->isBFloatTy())
        stores.push_back(store);
  }
  for (auto &[instruction, integer] : integers)
    integer = createMove(*instruction);

  for (auto &[instruction, integer] : integers) {
    if (auto *phi = dyn_cast<PHINode>(instruction)) {
      auto *merged = cast<PHINode>(integer);
      for (auto [value, block] :
           zip_equal(phi->incoming_values(), phi->blocks())) {
        // All ways from one block bring the same value.
        int known = merged->getBasicBlockIndex(block);
        merged->addIncoming(known < 0
                                ? getInteger(value, *block->getTerminator())
                                : merged->getIncomingValue(known),
                            block);
      }
    } else if (auto *select = dyn_cast<SelectInst>(instruction)) {
      integer->setOperand(1, getInteger(select->getTrueValue(), *integer));
      integer->setOperand(2, getInteger(select->getFalseValue(), *integer));
    } else if (isa<FreezeInst>(instruction)) {
      integer->setOperand(0, getInteger(instruction->getOperand(0), *integer));
    }
  }
  for (StoreInst *store : stores)
    store->setOperand(0, getInteger(store->getValueOperand(), *store));

  // Users that compute with a value take it as the float that it is.
  for (auto &[instruction, integer] : integers) {
    if (any_of(instruction->users(), [&](User *user) {
          return !integers.contains(cast<Instruction>(user));
        })) {
      IRBuilder<> builder(integer->getParent(),
                          *integer->getInsertionPointAfterDef());
      Value *number = builder.CreateBitCast(integer, instruction->getType());
      instruction->replaceUsesWithIf(number, [&](Use &use) {
        return !integers.contains(cast<Instruction>(use.getUser()));
      });
    }
  }
  for (auto &[instruction, integer] : integers)
    instruction->replaceAllUsesWith(PoisonValue::get(instruction->getType()));
  for (auto &[instruction, integer] : integers)
    instruction->eraseFromParent();
  foldRoundTrips();
}

void mlir::fp8moe::moveBFloatsAsIntegers(llvm::Module &llvmModule) {
  for (Function &function : llvmModule)
    if (!function.isDeclaration())
      BFloatMover(function).run();
}
