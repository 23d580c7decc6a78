//===- LaunchGroups.cpp - Several operations in one launch ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A merged kernel has the parameters of both kernels one after the other. Its
// first blocks run the first kernel, the others the second one with their
// numbers less those of the first:
//
//   if (block < blocks of the first) { first } else { second }
//
// A block runs one of the two, so their shared memory is the same.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LaunchGroups.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fp8moe;

static IntegerAttr getGroup(Operation *op) {
  return op->getAttrOfType<IntegerAttr>(FP8MoEDialect::kLaunchGroupAttrName);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitGroupError(Operation *op) {
  return op->emitError("launch group ")
         << getGroup(op).getInt() << " cannot be one launch: ";
}

static LogicalResult verifyPair(JaggedDynamicQuantizeOp first,
                                JaggedDynamicQuantizeOp second,
                                const LoweringTable &table) {
  if (first->getBlock() != second->getBlock())
    return emitGroupError(second) << "its operations are in different blocks";
  if (first.getOffsets() != second.getOffsets())
    return emitGroupError(second) << "its operations have different offsets";
  for (Operation *op = first->getNextNode(); op != second.getOperation();
       op = op->getNextNode())
    if (table.writesResults(op))
      return emitGroupError(second)
             << "'" << op->getName()
             << "' is launched between its operations; move one of them";
  Operation *producer = second.getInput().getDefiningOp();
  while (producer && producer != first.getOperation() &&
         producer->getNumOperands() == 1)
    producer = producer->getOperand(0).getDefiningOp();
  if (producer == first.getOperation())
    return emitGroupError(second) << "it reads what the other operation writes";
  return success();
}

LogicalResult LaunchGroups::collect(func::FuncOp func,
                                    const LoweringTable &table) {
  func.walk([&](JaggedDynamicQuantizeOp op) {
    if (IntegerAttr number = getGroup(op))
      groups[number.getInt()].ops.push_back(op);
  });
  // An operation whose partner was erased, as it had no uses, is launched
  // alone.
  groups.remove_if([](auto &entry) { return entry.second.ops.size() == 1; });
  for (auto &[number, group] : groups) {
    if (group.ops.size() != 2)
      return emitGroupError(group.ops.back())
             << "it has " << group.ops.size() << " operations, expected 2";
    if (failed(verifyPair(cast<JaggedDynamicQuantizeOp>(group.ops[0]),
                          cast<JaggedDynamicQuantizeOp>(group.ops[1]), table)))
      return failure();
  }
  return success();
}

void LaunchGroups::add(Operation *op, plan::LaunchOp launch) {
  IntegerAttr number = getGroup(op);
  if (number && groups.contains(number.getInt()))
    groups[number.getInt()].launches.push_back(launch);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The shared memory of a kernel.
static SmallVector<LLVM::GlobalOp> getGlobals(gpu::GPUFuncOp kernel) {
  auto module = kernel->getParentOfType<gpu::GPUModuleOp>();
  SmallVector<LLVM::GlobalOp> globals;
  kernel.walk([&](LLVM::AddressOfOp address) {
    auto global = module.lookupSymbol<LLVM::GlobalOp>(address.getGlobalName());
    if (global && !llvm::is_contained(globals, global))
      globals.push_back(global);
  });
  return globals;
}

static int64_t getBytes(LLVM::GlobalOp global) {
  return cast<LLVM::LLVMArrayType>(global.getType()).getNumElements();
}

/// Lets code use the memory of `available` where it is as large as its own.
static void shareGlobals(Region &code, ArrayRef<LLVM::GlobalOp> own,
                         SmallVector<LLVM::GlobalOp> available) {
  for (LLVM::GlobalOp global : own) {
    auto *other = llvm::find_if(available, [&](LLVM::GlobalOp entry) {
      return getBytes(entry) >= getBytes(global) &&
             entry.getAlignment() == global.getAlignment();
    });
    if (other == available.end())
      continue;
    code.walk([&](LLVM::AddressOfOp address) {
      if (address.getGlobalName() == global.getSymName())
        address.setGlobalName(other->getSymName());
    });
    available.erase(other);
  }
}

/// Copies the body of `kernel` to `region`, whose block is empty but for its
/// terminator, as blocks number `block` on.
static void cloneBody(gpu::GPUFuncOp kernel, Region &region,
                      ValueRange arguments, Value block) {
  IRMapping mapping;
  mapping.map(kernel.getArguments(), arguments);
  OpBuilder builder(region.front().getTerminator());
  for (Operation &op : kernel.getBody().front().without_terminator())
    builder.clone(op, mapping);
  region.walk([&](gpu::BlockIdOp id) {
    if (id.getDimension() != gpu::Dimension::x)
      return;
    id.replaceAllUsesWith(block);
    id.erase();
  });
}

static void buildMerged(Location loc, gpu::GPUModuleOp module, StringRef name,
                        gpu::GPUFuncOp first, gpu::GPUFuncOp second) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> types(first.getArgumentTypes());
  llvm::append_range(types, second.getArgumentTypes());
  auto merged = gpu::GPUFuncOp::create(builder, loc, name,
                                       builder.getFunctionType(types, {}));
  // Blocks have the same size, and what targets ask for is the same.
  for (NamedAttribute attr : first->getAttrDictionary())
    if (attr.getName() != SymbolTable::getSymbolAttrName() &&
        attr.getName() != first.getFunctionTypeAttrName())
      merged->setAttr(attr.getName(), attr.getValue());

  builder.setInsertionPointToStart(&merged.getBody().front());
  ValueRange arguments = merged.getArguments();
  ValueRange ofFirst = arguments.take_front(first.getNumArguments());
  ValueRange ofSecond = arguments.drop_front(first.getNumArguments());
  Value block = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  // The last parameter of a kernel is its number of blocks.
  Value numBlocks = arith::IndexCastOp::create(
      builder, loc, builder.getIndexType(), ofFirst.back());
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                        block, numBlocks);
  Value rest = arith::SubIOp::create(builder, loc, block, numBlocks);
  auto branch = scf::IfOp::create(builder, loc, TypeRange(), isFirst,
                                  /*withElseRegion=*/true);
  gpu::ReturnOp::create(builder, loc);
  cloneBody(first, branch.getThenRegion(), ofFirst, block);
  cloneBody(second, branch.getElseRegion(), ofSecond, rest);
  shareGlobals(branch.getElseRegion(), getGlobals(second), getGlobals(first));
}

/// Erases the symbols of one kind in `kernels` that nothing in `scope` uses.
/// All uses are looked up at once: to look one symbol's up takes a walk.
template <typename OpTy>
static void eraseUnused(gpu::GPUModuleOp kernels, Operation *scope) {
  SymbolTableCollection tables;
  SymbolUserMap users(tables, scope);
  for (auto symbol : llvm::make_early_inc_range(kernels.getOps<OpTy>()))
    if (users.useEmpty(symbol))
      symbol.erase();
}

void fp8moe::eraseUnusedKernels(ModuleOp module) {
  for (auto kernels : module.getOps<gpu::GPUModuleOp>()) {
    eraseUnused<gpu::GPUFuncOp>(kernels, module);
    eraseUnused<LLVM::GlobalOp>(kernels, kernels);
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// True for a launch along x that passes its number of blocks last.
static bool isPlain(plan::LaunchOp launch) {
  return !launch.getCondition() && !launch.getCluster() &&
         !launch.getCooperative() && launch.getSharedBytes() == 0 &&
         !launch.getArgs().empty() &&
         launch.getArgs().back() == launch.getGridX();
}

LogicalResult LaunchGroups::merge(const Group &group,
                                  ProgramLowering &lowering) {
  Operation *op = group.ops.back();
  if (group.launches.size() != 2 || !llvm::all_of(group.launches, isPlain))
    return emitGroupError(op)
           << "a tile needs launches of its own; give both operations a "
              "#fp8moe.two_pass tile, or remove the attribute";
  plan::LaunchOp first = group.launches[0], second = group.launches[1];
  if (first.getBlock() != second.getBlock())
    return emitGroupError(op)
           << "its kernels have blocks of " << first.getBlockX() << " and "
           << second.getBlockX() << " threads; give them equal ones";

  Location loc =
      FusedLoc::get(op->getContext(), {first.getLoc(), second.getLoc()});
  KernelCache &kernels = lowering.getKernels();
  SymbolRefAttr kernel = kernels.getOrBuild(
      "launch_group", {first.getKernel(), second.getKernel()},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &) {
        buildMerged(loc, module, name, kernels.lookup(first.getKernel()),
                    kernels.lookup(second.getKernel()));
      });
  int64_t sharedBytes = 0;
  for (LLVM::GlobalOp global : getGlobals(kernels.lookup(kernel)))
    sharedBytes += getBytes(global);
  int64_t limit = lowering.getTarget().sharedMemoryPerBlock;
  if (sharedBytes > limit)
    return emitGroupError(op) << "its kernels need " << sharedBytes
                              << " bytes of shared memory, but a block of "
                              << lowering.getTarget().chip << " has " << limit
                              << "; give both operations the same tile";

  OpBuilder builder(second);
  Value blocks =
      arith::AddIOp::create(builder, loc, first.getGridX(), second.getGridX());
  SmallVector<Value> args(first.getArgs());
  llvm::append_range(args, second.getArgs());
  plan::LaunchOp::create(builder, loc, kernel,
                         {blocks, second.getGridY(), second.getGridZ()},
                         second.getBlock(), /*sharedBytes=*/0, args);
  first.erase();
  second.erase();
  return success();
}

LogicalResult LaunchGroups::merge(ProgramLowering &lowering) {
  for (auto &entry : groups)
    if (failed(merge(entry.second, lowering)))
      return failure();
  return success();
}
