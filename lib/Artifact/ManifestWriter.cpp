//===- ManifestWriter.cpp - Programs as manifest.json ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The outer structure is indented, and every buffer, value and launch is one
// line, so that a manifest can be read and compared by people.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Artifact/ArtifactWriter.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/VersionTuple.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// A JSON string with quotes and escapes.
static std::string quote(StringRef text) {
  return llvm::formatv("{0}", llvm::json::Value(text)).str();
}

static std::string list(ArrayRef<std::string> items) {
  return "[" + llvm::join(items, ", ") + "]";
}

/// A JSON object of these fields, but for those without a value.
static std::string
object(std::initializer_list<std::pair<StringRef, std::string>> fields) {
  std::string text;
  for (const auto &[name, value] : fields)
    if (!value.empty())
      text += (text.empty() ? "" : ", ") + quote(name) + ": " + value;
  return "{" + text + "}";
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

/// Makes one line of JSON of each buffer, value, requirement, tensor map and
/// launch of a program.
class ProgramSerializer {
public:
  explicit ProgramSerializer(plan::ProgramOp program);

  void write(llvm::json::OStream &json) const;

  /// The oldest runtime that knows everything in the program.
  const llvm::VersionTuple &getMinRuntime() const { return minRuntime; }

private:
  template <typename BufferOp>
  void addBuffer(BufferOp op, StringRef role, StringRef name,
                 Value mayOverwrite = {});
  void addRequirement(plan::RequireOp op);
  void addTensorMap(plan::TensorMapOp op);
  void addLaunch(plan::LaunchOp op);

  std::string getNumber(Value buffer) {
    return llvm::itostr(bufferNumbers.lookup(buffer));
  }
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

  std::string name;
  std::vector<std::string> buffers, values, requirements, tensorMaps, launches;
  llvm::VersionTuple minRuntime{0, 1, 0};
  llvm::DenseMap<Value, int64_t> bufferNumbers, tensorMapNumbers;
  llvm::StringMap<int64_t> valueNumbers;
  llvm::DenseMap<Value, std::string> scalars;
};

} // namespace

std::string ProgramSerializer::addValue(StringRef op,
                                        ArrayRef<std::string> args) {
  std::string line = object({{"op", quote(op)}, {"args", list(args)}});
  auto [it, inserted] =
      valueNumbers.try_emplace(line, static_cast<int64_t>(values.size()));
  if (inserted)
    values.push_back(line);
  return object({{"value", llvm::itostr(it->second)}});
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
        {getNumber(aligned.getBuffer()),
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
  minRuntime = std::max(minRuntime, getFirstRuntime(attribute));
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
  return addValue("dim", {getNumber(buffer), llvm::itostr(dim)});
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
  return addValue("stride", {getNumber(buffer), llvm::itostr(dim)});
}

std::string ProgramSerializer::getInnerProduct(Value buffer, int64_t dim) {
  int64_t rank = cast<MemRefType>(buffer.getType()).getRank();
  std::string product = getDim(buffer, rank - 1);
  for (int64_t inner = rank - 2; inner > dim; --inner)
    product = addValue("mul", {getDim(buffer, inner), product});
  return product;
}

template <typename BufferOp>
void ProgramSerializer::addBuffer(BufferOp op, StringRef role, StringRef name,
                                  Value mayOverwrite) {
  Value buffer = op.getBuffer();
  auto type = cast<MemRefType>(buffer.getType());
  auto bind = [&](StringRef what, int64_t dim) {
    return object({{what, list({getNumber(buffer), llvm::itostr(dim)})}});
  };
  // The caller binds what an input leaves open.
  constexpr bool isInput = std::is_same_v<BufferOp, plan::InputOp>;
  SmallVector<std::string> shape, strides;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    bool isFreeStride = isInput && !type.getLayout().isIdentity() &&
                        ShapedType::isDynamic(plan::getStaticStride(type, dim));
    shape.push_back(isInput && type.isDynamicDim(dim) ? bind("dim", dim)
                                                      : getDim(buffer, dim));
    strides.push_back(isFreeStride ? bind("stride", dim)
                                   : getStride(buffer, dim));
  }
  if (mayOverwrite)
    minRuntime = std::max(minRuntime, kFirstToOverwrite);
  buffers.push_back(
      object({{"role", quote(role)},
              {"name", name.empty() ? "" : quote(name)},
              {"dtype", quote(*plan::getManifestDtype(type.getElementType()))},
              {"shape", list(shape)},
              {"strides", list(strides)},
              {"align", llvm::itostr(op.getAlignment())},
              {"may_overwrite", mayOverwrite ? getNumber(mayOverwrite) : ""}}));
}

void ProgramSerializer::addRequirement(plan::RequireOp op) {
  requirements.push_back(object({{"cond", getScalar(op.getCondition())},
                                 {"message", quote(op.getMessage())}}));
}

std::string ProgramSerializer::getScalars(ValueRange values) {
  return list(llvm::map_to_vector(
      values, [&](Value value) { return getScalar(value); }));
}

std::string ProgramSerializer::getArgument(Value argument) {
  if (isa<MemRefType>(argument.getType()))
    return object({{"buffer", getNumber(argument)}});
  if (isa<plan::TensorMapType>(argument.getType()))
    return object(
        {{"tensor_map", llvm::itostr(tensorMapNumbers.lookup(argument))}});
  return getScalar(argument);
}

void ProgramSerializer::addTensorMap(plan::TensorMapOp op) {
  // The runtime would encode it for nobody.
  if (op.getMap().use_empty())
    return;
  tensorMapNumbers[op.getMap()] = tensorMaps.size();
  int64_t promotion = op.getPromotion().value_or(0);
  tensorMaps.push_back(
      object({{"buffer", getNumber(op.getBuffer())},
              {"offset", op.getOffset() ? getScalar(op.getOffset()) : ""},
              {"sizes", getScalars(op.getSizes())},
              {"strides", getScalars(op.getStrides())},
              {"box", list(op.getBox())},
              {"swizzle", llvm::itostr(op.getSwizzle())},
              {"promotion", promotion ? llvm::itostr(promotion) : ""}}));
}

void ProgramSerializer::addLaunch(plan::LaunchOp op) {
  std::string args = list(llvm::map_to_vector(
      op.getArgs(), [&](Value argument) { return getArgument(argument); }));
  Value condition = op.getCondition();
  launches.push_back(
      object({{"kernel", quote(op.getKernel().getLeafReference().getValue())},
              {"grid", getScalars(ValueRange(op.getGrid()))},
              {"block", list(op.getBlock())},
              {"shared", llvm::itostr(op.getSharedBytes())},
              {"cluster", op.getCluster() ? list(*op.getCluster()) : ""},
              {"cooperative", op.getCooperative() ? "true" : ""},
              {"programmatic", op.getProgrammatic() ? "true" : ""},
              {"when", condition ? getScalar(condition) : ""},
              {"args", args}}));
}

ProgramSerializer::ProgramSerializer(plan::ProgramOp program)
    : name(program.getSymName()) {
  // All buffers are numbered first, so that computations may refer to any.
  for (Operation &op : *program.getBodyBlock())
    if (isa<plan::InputOp, plan::OutputOp, plan::WorkspaceOp>(op))
      bufferNumbers.try_emplace(op.getResult(0), bufferNumbers.size());
  for (Operation &op : *program.getBodyBlock())
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](plan::InputOp input) {
          addBuffer(input, "input", input.getBufferName());
        })
        .Case([&](plan::OutputOp output) {
          addBuffer(output, "output", output.getBufferName(),
                    output.getMayOverwrite());
        })
        .Case([&](plan::WorkspaceOp workspace) {
          addBuffer(workspace, "workspace", /*name=*/"");
        })
        .Case([&](plan::RequireOp require) { addRequirement(require); })
        .Case([&](plan::TensorMapOp map) { addTensorMap(map); })
        .Case([&](plan::LaunchOp launch) { addLaunch(launch); });
}

void ProgramSerializer::write(llvm::json::OStream &json) const {
  auto writeLines = [&](StringRef key, ArrayRef<std::string> lines) {
    json.attributeArray(key, [&] {
      for (const std::string &line : lines)
        json.rawValue(line);
    });
  };
  json.object([&] {
    json.attribute("name", name);
    writeLines("buffers", buffers);
    writeLines("values", values);
    if (!requirements.empty())
      writeLines("requires", requirements);
    if (!tensorMaps.empty())
      writeLines("tensor_maps", tensorMaps);
    writeLines("launches", launches);
  });
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

static constexpr int64_t schemaVersion = 1;

static constexpr StringRef producer =
    "fp8moe " FP8MOE_VERSION ", LLVM " LLVM_VERSION_STRING;

LogicalResult mlir::fp8moe::writeManifest(ModuleOp module,
                                          const TargetInfo &target,
                                          ArrayRef<ArtifactBinary> binaries,
                                          const llvm::json::Array &decisions,
                                          raw_ostream &os) {
  std::vector<ProgramSerializer> programs;
  for (auto program : module.getOps<plan::ProgramOp>())
    programs.emplace_back(program);
  if (programs.empty())
    return module.emitError("there is no program to write: the module has no "
                            "public function with a body, or none that was "
                            "lowered for target ")
           << target.chip;

  llvm::VersionTuple minRuntime;
  for (const ProgramSerializer &program : programs)
    minRuntime = std::max(minRuntime, program.getMinRuntime());

  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("schema", schemaVersion);
    json.attribute("min_runtime", minRuntime.getAsString());
    json.attribute("producer", producer);
    json.attributeObject("target", [&] {
      json.attribute("chip", target.chip);
      json.attribute("kind", stringifyTargetKind(target.kind));
      json.attribute("fp8", stringifyFp8Flavour(target.fp8));
    });
    json.attributeArray("binaries", [&] {
      for (const ArtifactBinary &binary : binaries)
        json.object([&] {
          json.attribute("file", binary.file);
          json.attribute("format", binary.format);
          json.attribute("xxh3",
                         llvm::utohexstr(llvm::xxh3_64bits(binary.bytes),
                                         /*LowerCase=*/true, /*Width=*/16));
        });
    });
    json.attributeArray("programs", [&] {
      for (const ProgramSerializer &program : programs)
        program.write(json);
    });
    json.attributeArray("decisions", [&] {
      for (const llvm::json::Value &decision : decisions)
        json.value(decision);
    });
  });
  os << "\n";
  return success();
}
