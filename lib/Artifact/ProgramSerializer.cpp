//===- ProgramSerializer.cpp - One program as lines of a manifest ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constants are written where they are used; everything else that is computed
// becomes an entry of "values" when it is first used, after what it depends on.
// Equal computations share an entry. Computations that nothing uses are not
// written, so that they cannot fail at run time.
//
//===----------------------------------------------------------------------===//

#include "ProgramSerializer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// A JSON string with quotes and escapes.
static std::string quote(StringRef text) {
  return llvm::formatv("{0}", llvm::json::Value(text)).str();
}

static std::string list(ArrayRef<std::string> items) {
  return "[" + llvm::join(items, ", ") + "]";
}

static std::string list(ArrayRef<int64_t> numbers) {
  return list(llvm::map_to_vector(
      numbers, [](int64_t number) { return llvm::itostr(number); }));
}

/// The manifest's operation for a binary operation of arith that has the same
/// operands; empty for others.
static StringRef getBinaryOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case<arith::AddIOp>([](Operation *) { return "add"; })
      .Case<arith::SubIOp>([](Operation *) { return "sub"; })
      .Case<arith::MulIOp>([](Operation *) { return "mul"; })
      .Case<arith::DivSIOp, arith::DivUIOp>([](Operation *) { return "div"; })
      .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>(
          [](Operation *) { return "ceildiv"; })
      .Case<arith::RemSIOp, arith::RemUIOp>([](Operation *) { return "rem"; })
      .Case<arith::MaxSIOp, arith::MaxUIOp>([](Operation *) { return "max"; })
      .Case<arith::MinSIOp, arith::MinUIOp>([](Operation *) { return "min"; })
      .Case<arith::AndIOp>([](Operation *) { return "and"; })
      .Case<arith::OrIOp>([](Operation *) { return "or"; })
      // On conditions, which are 0 or 1.
      .Case<arith::XOrIOp>([](Operation *) { return "ne"; })
      .Default([](Operation *) { return ""; });
}

/// The first runtime that knows a device attribute.
static llvm::VersionTuple getFirstRuntime(plan::DeviceAttribute attribute) {
  switch (attribute) {
  case plan::DeviceAttribute::Multiprocessors:
    return llvm::VersionTuple(0, 1, 0);
  case plan::DeviceAttribute::L2Bytes:
  case plan::DeviceAttribute::MemoryBandwidth:
    return llvm::VersionTuple(0, 2, 0);
  }
  llvm_unreachable("unknown device attribute");
}

/// The first runtime that knows of outputs which may overwrite inputs.
static const llvm::VersionTuple kFirstToOverwrite(0, 2, 0);

namespace {

/// The manifest's form of a comparison; it has no "greater".
struct Comparison {
  StringRef op;
  bool swapped;
};

} // namespace

static Comparison getComparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return {"eq", false};
  case arith::CmpIPredicate::ne:
    return {"ne", false};
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return {"lt", false};
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return {"le", false};
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return {"lt", true};
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return {"le", true};
  }
  llvm_unreachable("unknown predicate");
}

namespace {

class ProgramSerializer {
public:
  SerializedProgram run(plan::ProgramOp program);

private:
  /// Numbers the buffers, so that computations may refer to any of them.
  void numberBuffers(plan::ProgramOp program);

  void addBuffer(plan::InputOp op);
  void addBuffer(plan::OutputOp op);
  void addBuffer(plan::WorkspaceOp op);
  void addBuffer(StringRef role, std::optional<StringRef> name, MemRefType type,
                 ArrayRef<std::string> shape, ArrayRef<std::string> strides,
                 int64_t align, Value mayOverwrite = {});
  template <typename BufferOp>
  void addSizedBuffer(BufferOp op, StringRef role,
                      std::optional<StringRef> name, Value mayOverwrite = {});
  void addRequirement(plan::RequireOp op);
  void addTensorMap(plan::TensorMapOp op);
  void addLaunch(plan::LaunchOp op);

  std::string getArgument(Value argument);
  /// A list of scalars.
  std::string getScalars(ValueRange values);
  /// The scalar for a computed value, an extent or a stride. Each is made once:
  /// a product of products would be twice as long with each of them.
  std::string getScalar(Value value);
  std::string makeScalar(Value value);
  std::string getScalar(OpFoldResult value);
  std::string getDeviceAttribute(plan::DeviceAttribute attribute);
  std::string getDim(Value buffer, int64_t dim);
  std::string getStride(Value buffer, int64_t dim);
  /// The product of the extents inside of `dim`, which is the stride of a
  /// row-major buffer.
  std::string getInnerProduct(Value buffer, int64_t dim);

  /// The scalar that refers to the value `op(args...)`, which is added if it is
  /// new.
  std::string addValue(StringRef op, ArrayRef<std::string> args);

  SerializedProgram result;
  llvm::DenseMap<Value, int64_t> bufferNumbers, tensorMapNumbers;
  llvm::StringMap<int64_t> valueNumbers;
  llvm::DenseMap<Value, std::string> scalars;
};

} // namespace

std::string ProgramSerializer::addValue(StringRef op,
                                        ArrayRef<std::string> args) {
  std::string line =
      llvm::formatv("{{\"op\": \"{0}\", \"args\": {1}}", op, list(args));
  auto [it, inserted] = valueNumbers.try_emplace(
      line, static_cast<int64_t>(result.values.size()));
  if (inserted)
    result.values.push_back(line);
  return llvm::formatv("{{\"value\": {0}}", it->second);
}

std::string ProgramSerializer::getScalar(OpFoldResult value) {
  if (auto attribute = dyn_cast<Attribute>(value))
    return llvm::itostr(cast<IntegerAttr>(attribute).getInt());
  return getScalar(cast<Value>(value));
}

std::string ProgramSerializer::getScalar(Value value) {
  if (auto it = scalars.find(value); it != scalars.end())
    return it->second;
  std::string scalar = makeScalar(value);
  return scalars[value] = scalar;
}

std::string ProgramSerializer::makeScalar(Value value) {
  // Conditions are 0 and 1; sign extension would make true -1.
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return llvm::itostr(value.getType().isInteger(1) ? constant.getZExtValue()
                                                     : constant.getSExtValue());
  Operation *op = value.getDefiningOp();
  if (auto dim = dyn_cast<plan::DimOp>(op))
    return getDim(dim.getBuffer(), dim.getDimension());
  if (auto stride = dyn_cast<plan::StrideOp>(op))
    return getStride(stride.getBuffer(), stride.getDimension());
  if (auto attribute = dyn_cast<plan::DeviceAttrOp>(op))
    return getDeviceAttribute(attribute.getAttribute());
  if (auto aligned = dyn_cast<plan::AlignedOp>(op))
    return addValue(
        "aligned",
        {llvm::itostr(bufferNumbers.lookup(aligned.getBuffer())),
         llvm::itostr(static_cast<int64_t>(aligned.getAlignment()))});

  SmallVector<std::string> args;
  for (Value operand : op->getOperands())
    args.push_back(getScalar(operand));
  if (isa<arith::SelectOp>(op))
    return addValue("select", args);
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    Comparison comparison = getComparison(compare.getPredicate());
    if (comparison.swapped)
      std::swap(args[0], args[1]);
    return addValue(comparison.op, args);
  }
  // The program's verifier lets nothing else through.
  return addValue(getBinaryOp(op), args);
}

std::string
ProgramSerializer::getDeviceAttribute(plan::DeviceAttribute attribute) {
  result.minRuntime = std::max(result.minRuntime, getFirstRuntime(attribute));
  return addValue("device_attr",
                  {quote(plan::stringifyDeviceAttribute(attribute))});
}

std::string ProgramSerializer::getDim(Value buffer, int64_t dim) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(dim))
    return llvm::itostr(type.getDimSize(dim));
  if (auto output = buffer.getDefiningOp<plan::OutputOp>())
    return getScalar(output.getMixedSize(dim));
  if (auto workspace = buffer.getDefiningOp<plan::WorkspaceOp>())
    return getScalar(workspace.getMixedSize(dim));
  return addValue(
      "dim", {llvm::itostr(bufferNumbers.lookup(buffer)), llvm::itostr(dim)});
}

std::string ProgramSerializer::getStride(Value buffer, int64_t dim) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t stride = plan::getStaticStride(type, dim);
  if (!ShapedType::isDynamic(stride))
    return llvm::itostr(stride);
  if (type.getLayout().isIdentity())
    return getInnerProduct(buffer, dim);
  if (auto output = buffer.getDefiningOp<plan::OutputOp>())
    return getScalar(output.getMixedStride(dim));
  if (auto workspace = buffer.getDefiningOp<plan::WorkspaceOp>())
    return getScalar(workspace.getMixedStride(dim));
  return addValue("stride", {llvm::itostr(bufferNumbers.lookup(buffer)),
                             llvm::itostr(dim)});
}

std::string ProgramSerializer::getInnerProduct(Value buffer, int64_t dim) {
  int64_t rank = cast<MemRefType>(buffer.getType()).getRank();
  std::string product = getDim(buffer, rank - 1);
  for (int64_t inner = rank - 2; inner > dim; --inner)
    product = addValue("mul", {getDim(buffer, inner), product});
  return product;
}

void ProgramSerializer::addBuffer(StringRef role, std::optional<StringRef> name,
                                  MemRefType type, ArrayRef<std::string> shape,
                                  ArrayRef<std::string> strides, int64_t align,
                                  Value mayOverwrite) {
  std::string line = llvm::formatv("{{\"role\": \"{0}\", ", role);
  if (name)
    line += "\"name\": " + quote(*name) + ", ";
  line += llvm::formatv("\"dtype\": \"{0}\", \"shape\": {1}, \"strides\": {2}, "
                        "\"align\": {3}",
                        *plan::getManifestDtype(type.getElementType()),
                        list(shape), list(strides), align);
  if (mayOverwrite) {
    line += llvm::formatv(", \"may_overwrite\": {0}",
                          bufferNumbers.lookup(mayOverwrite));
    result.minRuntime = std::max(result.minRuntime, kFirstToOverwrite);
  }
  result.buffers.push_back(line + "}");
}

void ProgramSerializer::addBuffer(plan::InputOp op) {
  Value buffer = op.getBuffer();
  auto type = cast<MemRefType>(buffer.getType());
  int64_t number = bufferNumbers.lookup(buffer);
  SmallVector<std::string> shape, strides;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    shape.push_back(type.isDynamicDim(dim)
                        ? llvm::formatv("{{\"dim\": [{0}, {1}]}", number, dim)
                        : getDim(buffer, dim));
    bool isFree = !type.getLayout().isIdentity() &&
                  ShapedType::isDynamic(plan::getStaticStride(type, dim));
    strides.push_back(
        isFree ? llvm::formatv("{{\"stride\": [{0}, {1}]}", number, dim)
               : getStride(buffer, dim));
  }
  addBuffer("input", op.getBufferName(), type, shape, strides,
            op.getAlignment());
}

template <typename BufferOp>
void ProgramSerializer::addSizedBuffer(BufferOp op, StringRef role,
                                       std::optional<StringRef> name,
                                       Value mayOverwrite) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  SmallVector<std::string> shape, strides;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    shape.push_back(getDim(op.getBuffer(), dim));
    strides.push_back(getStride(op.getBuffer(), dim));
  }
  addBuffer(role, name, type, shape, strides, op.getAlignment(), mayOverwrite);
}

void ProgramSerializer::addBuffer(plan::OutputOp op) {
  addSizedBuffer(op, "output", op.getBufferName(), op.getMayOverwrite());
}

void ProgramSerializer::addBuffer(plan::WorkspaceOp op) {
  addSizedBuffer(op, "workspace", std::nullopt);
}

void ProgramSerializer::addRequirement(plan::RequireOp op) {
  result.requirements.push_back(
      llvm::formatv("{{\"cond\": {0}, \"message\": {1}}",
                    getScalar(op.getCondition()), quote(op.getMessage())));
}

std::string ProgramSerializer::getScalars(ValueRange values) {
  SmallVector<std::string> scalars;
  for (Value value : values)
    scalars.push_back(getScalar(value));
  return list(scalars);
}

std::string ProgramSerializer::getArgument(Value argument) {
  if (isa<MemRefType>(argument.getType()))
    return llvm::formatv("{{\"buffer\": {0}}", bufferNumbers.lookup(argument));
  if (isa<plan::TensorMapType>(argument.getType()))
    return llvm::formatv("{{\"tensor_map\": {0}}",
                         tensorMapNumbers.lookup(argument));
  return getScalar(argument);
}

void ProgramSerializer::addTensorMap(plan::TensorMapOp op) {
  // The runtime would encode it for nobody.
  if (op.getMap().use_empty())
    return;
  tensorMapNumbers[op.getMap()] = result.tensorMaps.size();
  std::string line = llvm::formatv("{{\"buffer\": {0}, ",
                                   bufferNumbers.lookup(op.getBuffer()));
  if (Value offset = op.getOffset())
    line += "\"offset\": " + getScalar(offset) + ", ";
  line += llvm::formatv("\"sizes\": {0}, \"strides\": {1}, \"box\": {2}, "
                        "\"swizzle\": {3}",
                        getScalars(op.getSizes()), getScalars(op.getStrides()),
                        list(op.getBox()), op.getSwizzle());
  if (int64_t promotion = op.getPromotion().value_or(0))
    line += llvm::formatv(", \"promotion\": {0}", promotion);
  result.tensorMaps.push_back(line + "}");
}

void ProgramSerializer::addLaunch(plan::LaunchOp op) {
  SmallVector<std::string> args;
  for (Value argument : op.getArgs())
    args.push_back(getArgument(argument));
  std::string line = llvm::formatv(
      "{{\"kernel\": {0}, \"grid\": {1}, \"block\": {2}, \"shared\": {3}, ",
      quote(op.getKernel().getLeafReference().getValue()),
      getScalars(ValueRange(op.getGrid())), list(op.getBlock()),
      op.getSharedBytes());
  if (std::optional<ArrayRef<int64_t>> cluster = op.getCluster())
    line += "\"cluster\": " + list(*cluster) + ", ";
  if (op.getCooperative())
    line += "\"cooperative\": true, ";
  if (op.getProgrammatic())
    line += "\"programmatic\": true, ";
  if (Value condition = op.getCondition())
    line += "\"when\": " + getScalar(condition) + ", ";
  result.launches.push_back(line + "\"args\": " + list(args) + "}");
}

void ProgramSerializer::numberBuffers(plan::ProgramOp program) {
  for (Operation &op : *program.getBodyBlock())
    if (isa<plan::InputOp, plan::OutputOp, plan::WorkspaceOp>(op))
      bufferNumbers.try_emplace(op.getResult(0), bufferNumbers.size());
}

SerializedProgram ProgramSerializer::run(plan::ProgramOp program) {
  result.name = program.getSymName().str();
  numberBuffers(program);
  for (Operation &op : *program.getBodyBlock())
    llvm::TypeSwitch<Operation *>(&op)
        .Case<plan::InputOp, plan::OutputOp, plan::WorkspaceOp>(
            [&](auto buffer) { addBuffer(buffer); })
        .Case([&](plan::RequireOp require) { addRequirement(require); })
        .Case([&](plan::TensorMapOp map) { addTensorMap(map); })
        .Case([&](plan::LaunchOp launch) { addLaunch(launch); });
  return result;
}

SerializedProgram mlir::fp8moe::serializeProgram(plan::ProgramOp program) {
  return ProgramSerializer().run(program);
}
