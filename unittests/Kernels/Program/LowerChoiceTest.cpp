//===- LowerChoiceTest.cpp - Tests of conditions on launches --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LowerChoice.h"

#include "Kernels/Quantize/QuantizeLaunch.h"
#include "ProgramFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Lowers to a tile for some numbers of rows, and to one for the rest.
LogicalResult lowerToTwoTiles(Operation *op, ProgramLowering &lowering) {
  BufferView input = lowering.getView(op->getOperand(0));
  BufferView output = *lowering.createResult(op->getResult(0));
  BufferView scales = *lowering.createResult(op->getResult(1));
  OpBuilder builder = lowering.getBuilder();
  QuantizeOperands operands;
  operands.problem.inputType = builder.getBF16Type();
  operands.problem.fp8Type = builder.getType<Float8E4M3FNType>();
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  operands.sizes = {/*segments=*/one,
                    /*reduction=*/input.sizes[0],
                    /*parallel=*/input.sizes[1],
                    /*extent=*/zero,
                    zero,
                    input.strides[0],
                    input.strides[1],
                    zero,
                    output.strides[0],
                    output.strides[1],
                    zero,
                    one};
  operands.problem.sizes = getKnownSizes(operands.sizes);
  operands.buffers = {input.buffer, Value(), output.buffer, scales.buffer};

  MLIRContext *context = op->getContext();
  QuantizeInstance first(op, operands,
                         SinglePassOuterTileAttr::get(context, 64, 13),
                         QuantizeKind::OuterTransposing),
      rest(op, operands, TwoPassTileAttr::get(context, 64, 256),
           QuantizeKind::OuterTransposing);
  Value rows = materializeSize(builder, op->getLoc(), input.sizes[0]);
  auto range = RangeAttr::get(context, Quantity::MeanLength,
                              /*above=*/1000, /*up_to=*/9000);
  return lowerChoice({{&first, range}, {&rest}}, {rows, input.sizes[1]},
                     lowering);
}

/// Returns whether `value` depends on a constant of this value.
bool dependsOn(Value value, int64_t constant) {
  if (getConstantIntValue(value) == constant)
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) {
           return dependsOn(operand, constant);
         });
}

class LowerChoiceTest : public ProgramFixture {};

TEST_F(LowerChoiceTest, KernelsThatLeaveSomethingRunInTheirRange) {
  OpLowering lowering{"quantizations", isAnyOf<DynamicQuantizeOp>,
                      lowerToTwoTiles};
  table.ops.push_back(&lowering);
  table.kernels = createLoweringTable().kernels;
  parse(R"(
    func.func @f(%x: tensor<?x4096xbf16>)
        -> (tensor<?x4096xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<4096xf32>) {
      %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
          : tensor<?x4096xbf16> -> tensor<?x4096xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<4096xf32>
      return %q, %s : tensor<?x4096xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<4096xf32>
    })");
  plan::ProgramOp program = lower("f");
  ASSERT_TRUE(program);
  auto launches = llvm::to_vector(program.getOps<plan::LaunchOp>());
  ASSERT_EQ(launches.size(), 2u);
  // The second tile runs whenever the first one did not, for any reason.
  for (plan::LaunchOp launch : launches)
    for (int64_t bound : {1000, 9000})
      EXPECT_TRUE(dependsOn(launch.getCondition(), bound));
}

} // namespace
