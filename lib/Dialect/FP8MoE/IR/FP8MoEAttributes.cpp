//===- FP8MoEAttributes.cpp - Layouts and targets -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Target/Cards.h"
#include "fp8moe/Target/Suggestion.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.cpp.inc"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttrInterfaces.cpp.inc"

/// Parses a word of an enumeration, whose values are numbered from 0.
template <typename Enum> static FailureOr<Enum> parseName(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  std::string name;
  if (parser.parseKeywordOrString(&name))
    return failure();
  if (std::optional<Enum> value = symbolizeEnum<Enum>(name))
    return *value;
  std::vector<std::string> known;
  for (uint32_t i = 0; !stringifyEnum(Enum(i)).empty(); ++i)
    known.push_back(stringifyEnum(Enum(i)).str());
  return parser.emitError(loc, describeUnknown("word", name, known));
}

#define GET_ATTRDEF_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.cpp.inc"

void FP8MoEDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.cpp.inc"
      >();
}

template <typename... Attrs> static std::vector<std::string> listMnemonics() {
  return {Attrs::getMnemonic().str()...};
}

Attribute FP8MoEDialect::parseAttribute(DialectAsmParser &parser,
                                        Type type) const {
  SMLoc loc = parser.getCurrentLocation();
  StringRef mnemonic;
  Attribute attr;
  if (generatedAttributeParser(parser, &mnemonic, type, attr).has_value())
    return attr;
  static const std::vector<std::string> known = listMnemonics<
#define GET_ATTRDEF_LIST
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.cpp.inc"
      >();
  parser.emitError(loc, "unknown attribute `")
      << mnemonic << "` in dialect `fp8moe`" << suggest(mnemonic, known);
  return {};
}

void FP8MoEDialect::printAttribute(Attribute attr,
                                   DialectAsmPrinter &printer) const {
  (void)generatedAttributePrinter(attr, printer);
}

//===----------------------------------------------------------------------===//
// GroupPaddingAttr
//===----------------------------------------------------------------------===//

LogicalResult
GroupPaddingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         int64_t dim, int64_t pad) {
  if (dim < 0)
    return emitError() << "expects the padded dimension to be >= 0, found "
                       << dim;
  if (pad < 2)
    return emitError() << "expects groups to be padded to at least 2, found "
                       << pad << "; leave 'groups' out for packed groups";
  // Rows are counted in 32 bits, as the offsets are.
  if (pad > std::numeric_limits<int32_t>::max())
    return emitError() << "expects groups to be padded to at most "
                       << std::numeric_limits<int32_t>::max() << ", found "
                       << pad;
  return success();
}

/// Checks that `groups` fits the dimensions of a tensor.
static LogicalResult
verifyGroupsFit(function_ref<InFlightDiagnostic()> emitError,
                GroupPaddingAttr groups, ArrayRef<int64_t> shape) {
  if (!groups)
    return success();
  if (groups.getDim() >= static_cast<int64_t>(shape.size()))
    return emitError() << "layout pads dimension " << groups.getDim()
                       << " of a tensor of rank " << shape.size();
  int64_t size = shape[groups.getDim()];
  if (!ShapedType::isDynamic(size) && size % groups.getPad() != 0)
    return emitError() << "layout pads groups along dimension "
                       << groups.getDim() << " to multiples of "
                       << groups.getPad() << ", but its extent is " << size;
  return success();
}

//===----------------------------------------------------------------------===//
// StridedEncodingAttr
//===----------------------------------------------------------------------===//

/// `, groups<dim = D, pad = P>`, after the comma and the keyword.
static ParseResult parseGroups(AsmParser &parser, GroupPaddingAttr &groups) {
  auto attr = GroupPaddingAttr::parse(parser, Type());
  groups = dyn_cast_or_null<GroupPaddingAttr>(attr);
  return success(static_cast<bool>(groups));
}

static void printGroups(AsmPrinter &printer, GroupPaddingAttr groups) {
  if (!groups)
    return;
  printer << ", groups";
  groups.print(printer);
}

static ParseResult parseStride(AsmParser &parser, int64_t &stride) {
  if (succeeded(parser.parseOptionalQuestion())) {
    stride = ShapedType::kDynamic;
    return success();
  }
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(stride))
    return failure();
  // The number that stands for '?' inside must not be written as a number.
  if (ShapedType::isDynamic(stride))
    return parser.emitError(loc) << "expects strides of at least 1 element, or "
                                    "'?', found "
                                 << stride;
  return success();
}

/// `[element, ...]`
template <typename ParseFn>
static ParseResult parseIntegerList(AsmParser &parser,
                                    SmallVectorImpl<int64_t> &list,
                                    ParseFn parseElement) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parseElement(parser, list.emplace_back());
  });
}

namespace {
/// The optional parts of a strided layout, each with whether it was there.
struct StridedParts {
  SmallVector<int64_t> strides;
  int64_t align = 0;
  GroupPaddingAttr groups;
  bool hasStrides = false, hasAlign = false;
};
} // namespace

/// One of `strides = [...]`, `align = N`, `groups<...>`.
static ParseResult parseStridedPart(AsmParser &parser, StridedParts &parts) {
  StringRef key;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&key))
    return failure();
  if (key == "strides" && !parts.hasStrides) {
    parts.hasStrides = true;
    if (parser.parseEqual() ||
        parseIntegerList(parser, parts.strides, parseStride))
      return failure();
    if (parts.strides.empty())
      return parser.emitError(loc) << "expects one stride for each dimension; "
                                      "leave 'strides' out for dense ones";
    return success();
  }
  if (key == "align" && !parts.hasAlign) {
    parts.hasAlign = true;
    if (parser.parseEqual() || parser.parseInteger(parts.align))
      return failure();
    if (parts.align == 0)
      return parser.emitError(loc) << "expects the alignment to be a power of "
                                      "two in bytes, found 0; leave 'align' "
                                      "out to promise nothing";
    return success();
  }
  if (key == "groups" && !parts.groups)
    return parseGroups(parser, parts.groups);
  return parser.emitError(loc) << "expects 'strides', 'align' or 'groups', "
                                  "each at most once, found '"
                               << key << "'";
}

Attribute StridedEncodingAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> order;
  auto parseDim = [](AsmParser &parser, int64_t &dim) -> ParseResult {
    return parser.parseInteger(dim);
  };
  if (parser.parseLess() || parseIntegerList(parser, order, parseDim))
    return {};
  StridedParts parts;
  while (succeeded(parser.parseOptionalComma()))
    if (parseStridedPart(parser, parts))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<StridedEncodingAttr>(loc, parser.getContext(), order,
                                                parts.strides, parts.align,
                                                parts.groups);
}

void StridedEncodingAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getOrder(), printer);
  printer << ']';
  if (!getStrides().empty()) {
    printer << ", strides = [";
    llvm::interleaveComma(getStrides(), printer, [&](int64_t stride) {
      if (ShapedType::isDynamic(stride))
        printer << '?';
      else
        printer << stride;
    });
    printer << ']';
  }
  if (getAlign())
    printer << ", align = " << getAlign();
  printGroups(printer, getGroups());
  printer << '>';
}

/// The largest alignment that the runtime accepts for a buffer, in bytes.
static constexpr int64_t kMaxAlignment = int64_t(1) << 30;

LogicalResult
StridedEncodingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                            ArrayRef<int64_t> order, ArrayRef<int64_t> strides,
                            int64_t align, GroupPaddingAttr groups) {
  if (order.empty() || !isPermutation(order))
    return emitError() << "expects the order to name each dimension once, "
                          "found ["
                       << order << "]";
  if (!strides.empty() && strides.size() != order.size())
    return emitError() << "expects one stride for each of the " << order.size()
                       << " dimensions, found " << strides.size();
  int64_t inner = 0;
  for (int64_t dim : llvm::reverse(order)) {
    if (strides.empty() || ShapedType::isDynamic(strides[dim]))
      continue;
    if (strides[dim] < 1)
      return emitError() << "expects strides of at least 1 element, found "
                         << strides[dim] << " for dimension " << dim;
    if (strides[dim] < inner)
      return emitError() << "expects strides that do not decrease outwards, "
                            "found "
                         << strides[dim] << " for dimension " << dim
                         << " outside a stride of " << inner;
    inner = strides[dim];
  }
  if (align < 0 || (align && !llvm::isPowerOf2_64(align)))
    return emitError() << "expects the alignment to be a power of two in "
                          "bytes, found "
                       << align;
  if (align > kMaxAlignment)
    return emitError() << "expects the alignment to be at most "
                       << kMaxAlignment << " bytes, found " << align;
  return success();
}

/// Checks that explicit strides put no two elements at the same place. Unknown
/// strides and sizes are given the benefit of the doubt.
static LogicalResult
verifyNoOverlap(function_ref<InFlightDiagnostic()> emitError,
                ArrayRef<int64_t> order, ArrayRef<int64_t> strides,
                ArrayRef<int64_t> shape) {
  if (llvm::is_contained(shape, 0))
    return success();
  // From inner to outer each dimension must step over what lies inside it,
  // which is at least `extent` elements.
  int64_t extent = 1, inner = 0, innerStride = 1;
  for (int64_t dim : llvm::reverse(order)) {
    if (shape[dim] == 1)
      continue;
    int64_t stride =
        ShapedType::isDynamic(strides[dim]) ? extent : strides[dim];
    if (stride < extent)
      return emitError() << "layout lets elements overlap: dimension " << dim
                         << " has stride " << stride << ", inside it lie "
                         << extent << " elements; with this stride dimension "
                         << inner << " may have a size of up to "
                         << stride / innerStride;
    inner = dim;
    innerStride = stride;
    if (ShapedType::isDynamic(shape[dim]))
      continue;
    extent = multiplySizes(stride, shape[dim]);
    if (ShapedType::isDynamic(extent))
      return emitError() << "layout spans more elements than 64 bits count: "
                            "dimension "
                         << dim << " has size " << shape[dim] << " and stride "
                         << stride;
  }
  return success();
}

LogicalResult StridedEncodingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    function_ref<InFlightDiagnostic()> emitError) const {
  // The parser asks even when it could not parse the element type.
  if (!elementType)
    return failure();
  if (shape.size() != getOrder().size())
    return emitError() << "layout is for tensors of rank " << getOrder().size()
                       << ", found rank " << shape.size();
  if (failed(verifyGroupsFit(emitError, getGroups(), shape)))
    return failure();

  SmallVector<int64_t> strides = computeStrides(shape, getOrder());
  if (!getStrides().empty())
    strides.assign(getStrides().begin(), getStrides().end());
  if (failed(verifyNoOverlap(emitError, getOrder(), strides, shape)))
    return failure();
  std::optional<int64_t> elementBytes = getElementBytes(elementType);
  if (!getAlign() || !elementBytes)
    return success();
  for (int64_t dim : ArrayRef(getOrder()).drop_back()) {
    int64_t pitch = multiplySizes(strides[dim], *elementBytes);
    if (shape[dim] != 1 && !ShapedType::isDynamic(pitch) &&
        pitch % getAlign() != 0)
      return emitError() << "layout promises pitches that are multiples of "
                         << getAlign() << " bytes, but that of dimension "
                         << dim << " is " << pitch << " bytes";
  }
  return success();
}

MemRefType StridedEncodingAttr::getBufferType(RankedTensorType type) const {
  StridedLayout layout = *StridedLayout::get(type);
  if (layout.dense && llvm::is_sorted(layout.order))
    return MemRefType::get(type.getShape(), type.getElementType());
  return MemRefType::get(
      type.getShape(), type.getElementType(),
      mlir::StridedLayoutAttr::get(getContext(), /*offset=*/0, layout.strides));
}

//===----------------------------------------------------------------------===//
// ScaleBlockedEncodingAttr
//===----------------------------------------------------------------------===//

/// The tile in which matrix units read scales: 128 rows by 4 columns.
static constexpr int64_t kScaleTileRows = 128;
static constexpr int64_t kScaleTileCols = 4;

Attribute ScaleBlockedEncodingAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> tile;
  GroupPaddingAttr groups;
  if (parser.parseLess() ||
      parser.parseDimensionList(tile, /*allowDynamic=*/false,
                                /*withTrailingX=*/false))
    return {};
  if (tile.size() != 2) {
    parser.emitError(loc) << "expects a tile of rows x columns, such as 128x4";
    return {};
  }
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("groups") || parseGroups(parser, groups)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ScaleBlockedEncodingAttr>(loc, parser.getContext(),
                                                     tile[0], tile[1], groups);
}

void ScaleBlockedEncodingAttr::print(AsmPrinter &printer) const {
  printer << '<' << getRows() << 'x' << getCols();
  printGroups(printer, getGroups());
  printer << '>';
}

LogicalResult
ScaleBlockedEncodingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t rows, int64_t cols,
                                 GroupPaddingAttr groups) {
  if (rows != kScaleTileRows || cols != kScaleTileCols)
    return emitError() << "expects tiles of " << kScaleTileRows << "x"
                       << kScaleTileCols
                       << ", the only ones that hardware reads, found " << rows
                       << "x" << cols;
  if (!groups)
    return success();
  int64_t expected = groups.getDim() == 0 ? rows : cols;
  if (groups.getDim() > 1 || groups.getPad() != expected)
    return emitError()
           << "expects padded groups to be <dim = 0, pad = 128> "
              "(rows) or <dim = 1, pad = 4> (columns), found <dim = "
           << groups.getDim() << ", pad = " << groups.getPad() << ">";
  return success();
}

LogicalResult ScaleBlockedEncodingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    function_ref<InFlightDiagnostic()> emitError) const {
  // The parser asks even when it could not parse the element type.
  if (!elementType)
    return failure();
  if (shape.size() != 2 && shape.size() != 3)
    return emitError() << "blocked scales have rank 2 (rows, columns) or 3 "
                          "(experts, rows, columns), found rank "
                       << shape.size();
  if (getGroups() && shape.size() != 2)
    return emitError() << "blocked scales with padded groups have rank 2, "
                          "found rank "
                       << shape.size();
  if (!elementType.isIntOrFloat() || elementType.getIntOrFloatBitWidth() != 8)
    return emitError() << "blocked scales are one-byte elements, found "
                       << elementType;
  return verifyGroupsFit(emitError, getGroups(), shape);
}

MemRefType
ScaleBlockedEncodingAttr::getBufferType(RankedTensorType type) const {
  ArrayRef<int64_t> shape = type.getShape();
  int64_t rows = multiplySizes(ceilDivSizes(shape[shape.size() - 2], getRows()),
                               getRows());
  int64_t cols =
      multiplySizes(ceilDivSizes(shape.back(), getCols()), getCols());
  int64_t bytes = multiplySizes(rows, cols);
  if (shape.size() == 3)
    bytes = multiplySizes(bytes, shape[0]);
  return MemRefType::get({bytes}, type.getElementType());
}

//===----------------------------------------------------------------------===//
// TargetAttr
//===----------------------------------------------------------------------===//

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef chip) {
  if (lookupTarget(chip))
    return success();
  return emitError() << describeUnknownTarget(chip);
}

const TargetInfo &TargetAttr::getInfo() const {
  return *lookupTarget(getChip());
}

TargetAttr fp8moe::lookupTargetAttr(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module
             ? module->getAttrOfType<TargetAttr>(FP8MoEDialect::kTargetAttrName)
             : TargetAttr();
}

FailureOr<TargetAttr> fp8moe::requireTargetAttr(Operation *op) {
  if (TargetAttr target = lookupTargetAttr(op))
    return target;
  const TargetInfo &example = *llvm::find_if(
      knownTargets(), [](const TargetInfo &target) { return target.isGPU(); });
  return op->emitError("the module names no target; add the attribute '")
         << FP8MoEDialect::kTargetAttrName << " = #fp8moe.target<\""
         << example.chip << "\">' (or another of " << listKnownTargets() << ")";
}

//===----------------------------------------------------------------------===//
// PrecisionAttr
//===----------------------------------------------------------------------===//

LogicalResult
PrecisionAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      PrecisionChoice, StringRef name, MatmulUse,
                      PrecisionRecipe, int64_t bf16Ns, int64_t fp8Ns,
                      StringRef) {
  if (name.empty())
    return emitError() << "expects the name of the matmul's module, such as "
                          "\"layers.0.attention.wk\", found an empty one";
  if (bf16Ns < 0 || fp8Ns < 0)
    return emitError() << "expects predicted times of at least 0 ns, found "
                       << std::min(bf16Ns, fp8Ns);
  return success();
}
