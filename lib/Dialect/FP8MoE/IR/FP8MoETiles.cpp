//===- FP8MoETiles.cpp - Tiles of kernels, and choices --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpUtils.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::detail;

using EmitError = function_ref<InFlightDiagnostic()>;

StringRef fp8moe::getTileKind(TileAttrInterface tile) {
  return tile.getAbstractAttribute().getName().split('.').second;
}

/// An attribute as it is written, without `prefix` and `suffix`.
static std::string describeWithout(StringRef prefix, StringRef suffix,
                                   Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  StringRef body(text);
  body.consume_front(prefix);
  body.consume_back(suffix);
  return body.str();
}

std::string fp8moe::describeTile(TileAttrInterface tile) {
  return describeWithout("#fp8moe.", "", tile);
}

std::string fp8moe::describeAlternative(AlternativeAttr alternative) {
  return describeWithout("#fp8moe.alternative<#fp8moe.", ">", alternative);
}

std::string fp8moe::describeRange(RangeAttr range) {
  return describeWithout("#fp8moe.range<", ">", range);
}

/// More than a block of any chip has of anything: threads, or bytes of shared
/// memory. Products of three such numbers fit into 64 bits.
static constexpr int64_t kMostOfTile = int64_t(1) << 20;

LogicalResult fp8moe::detail::verifyTileCounts(
    EmitError emitError, ArrayRef<std::pair<StringRef, int64_t>> counts) {
  for (auto [name, value] : counts) {
    if (value < 1)
      return emitError() << "expects " << name << " to be at least 1, found "
                         << value;
    if (value > kMostOfTile)
      return emitError() << "expects " << name << " to be at most "
                         << kMostOfTile << ", found " << value;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Quantizations
//===----------------------------------------------------------------------===//

static LogicalResult verifyColumnsAndThreads(EmitError emitError,
                                             int64_t columns, int64_t threads) {
  if (failed(verifyTileCounts(emitError, {{"columns", columns}})))
    return failure();
  if (threads >= 32 && threads <= 1024 && llvm::isPowerOf2_64(threads))
    return success();
  return emitError() << "expects a power of two from 32 to 1024 threads, "
                        "found "
                     << threads;
}

LogicalResult TwoPassTileAttr::verify(EmitError emitError, int64_t columns,
                                      int64_t threads) {
  return verifyColumnsAndThreads(emitError, columns, threads);
}

SmallVector<TileField> TwoPassTileAttr::getFields() const {
  return {{"columns", getColumns()}, {"threads", getThreads()}};
}

LogicalResult RegisterResidentTileAttr::verify(EmitError emitError,
                                               int64_t columns, int64_t threads,
                                               int64_t chunks, int64_t rounds,
                                               int64_t blocks) {
  if (failed(verifyColumnsAndThreads(emitError, columns, threads)))
    return failure();
  if (threads % columns != 0 || !llvm::isPowerOf2_64(threads / columns))
    return emitError() << "expects as many threads for each column, a power of "
                          "two; found "
                       << threads << " threads for " << columns << " columns";
  return verifyTileCounts(
      emitError, {{"chunks", chunks}, {"rounds", rounds}, {"blocks", blocks}});
}

SmallVector<TileField> RegisterResidentTileAttr::getFields() const {
  return {{"columns", getColumns()},
          {"threads", getThreads()},
          {"chunks", getChunks()},
          {"rounds", getRounds()},
          {"blocks", getBlocks()}};
}

LogicalResult SinglePassOuterTileAttr::verify(EmitError emitError,
                                              int64_t columns, int64_t stages) {
  return verifyTileCounts(emitError,
                          {{"columns", columns}, {"stages", stages}});
}

SmallVector<TileField> SinglePassOuterTileAttr::getFields() const {
  return {{"columns", getColumns()}, {"stages", getStages()}};
}

LogicalResult SinglePassBothAxesTileAttr::verify(EmitError emitError,
                                                 int64_t columns,
                                                 int64_t stages,
                                                 int64_t rowBytes,
                                                 int64_t rowStages) {
  return verifyTileCounts(emitError, {{"columns", columns},
                                      {"stages", stages},
                                      {"row_bytes", rowBytes},
                                      {"row_stages", rowStages}});
}

SmallVector<TileField> SinglePassBothAxesTileAttr::getFields() const {
  return {{"columns", getColumns()},
          {"stages", getStages()},
          {"row_bytes", getRowBytes()},
          {"row_stages", getRowStages()}};
}

LogicalResult RescaledBothAxesTileAttr::verify(EmitError emitError,
                                               int64_t threads, int64_t chunks,
                                               int64_t blocks, bool) {
  if (failed(verifyTileCounts(
          emitError,
          {{"threads", threads}, {"chunks", chunks}, {"blocks", blocks}})))
    return failure();
  if (threads <= 1024 && threads % 32 == 0)
    return success();
  return emitError() << "expects a multiple of 32 up to 1024 threads, found "
                     << threads;
}

SmallVector<TileField> RescaledBothAxesTileAttr::getFields() const {
  SmallVector<TileField> fields{{"threads", getThreads()},
                                {"chunks", getChunks()},
                                {"blocks", getBlocks()}};
  if (getFused())
    fields.push_back({"fused", StringRef("true")});
  return fields;
}

bool fp8moe::isBothAxesTile(TileAttrInterface tile) {
  return isa<SinglePassBothAxesTileAttr, RescaledBothAxesTileAttr>(tile);
}

LogicalResult PerAxisAttr::verify(EmitError emitError, ArrayAttr choices) {
  if (choices.size() < 2)
    return emitError() << "expects a choice for each of several axes, found "
                       << choices.size();
  for (Attribute entry : choices) {
    auto choice = dyn_cast<KernelChoiceAttr>(entry);
    if (!choice)
      return emitError() << "expects choices, such as #fp8moe.choice<[...]>, "
                            "found "
                         << entry;
    for (AlternativeAttr alternative : choice.getEntries())
      if (isa<PerAxisAttr>(alternative.getTile()))
        return emitError() << "does not stand within a choice for one axis";
  }
  return success();
}

/// The tile of each axis has fields; per_axis has none of its own.
SmallVector<TileField> PerAxisAttr::getFields() const { return {}; }

//===----------------------------------------------------------------------===//
// RangeAttr
//===----------------------------------------------------------------------===//

LogicalResult RangeAttr::verify(EmitError emitError, Quantity quantity,
                                int64_t above, int64_t upTo, bool percentOfL2) {
  if (above == 0 && upTo == kUnbounded)
    return emitError() << "expects a bound: above, up_to or both";
  if (above < 0 || above >= upTo)
    return emitError() << "expects 0 <= above < up_to, found above " << above
                       << " up_to " << upTo;
  if (!percentOfL2)
    return success();
  if (quantity != Quantity::GroupBytes)
    return emitError() << "expects bytes to compare with 'percent of l2', such "
                          "as 'group_bytes', found '"
                       << stringifyQuantity(quantity)
                       << "'; write that, or a number alone";
  // The host multiplies them by the bytes of a cache.
  constexpr int64_t kMostPercent = 1000;
  int64_t most = upTo == kUnbounded ? above : upTo;
  if (most > kMostPercent)
    return emitError() << "expects at most " << kMostPercent
                       << " percent of l2, found " << most
                       << "; leave 'percent of l2' out for a number of bytes";
  return success();
}

/// mean_length above 256 up_to 4096
/// group_bytes up_to 50 percent of l2
static ParseResult parseRangeBody(AsmParser &parser, RangeAttr &range) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<Quantity> quantity = FieldParser<Quantity>::parse(parser);
  int64_t above = 0, upTo = kUnbounded;
  if (failed(quantity) ||
      (succeeded(parser.parseOptionalKeyword("above")) &&
       parser.parseInteger(above)) ||
      (succeeded(parser.parseOptionalKeyword("up_to")) &&
       parser.parseInteger(upTo)))
    return failure();
  bool percentOfL2 = succeeded(parser.parseOptionalKeyword("percent"));
  if (percentOfL2 &&
      (parser.parseKeyword("of", " in 'percent of l2'") ||
       parser.parseKeyword("l2", ", the cache that 'percent of' is about")))
    return failure();
  range = parser.getChecked<RangeAttr>(loc, parser.getContext(), *quantity,
                                       above, upTo, percentOfL2);
  return success(static_cast<bool>(range));
}

static void printRangeBody(AsmPrinter &printer, RangeAttr range) {
  printer << stringifyQuantity(range.getQuantity());
  if (range.getAbove() != 0)
    printer << " above " << range.getAbove();
  if (range.getUpTo() != kUnbounded)
    printer << " up_to " << range.getUpTo();
  if (range.getPercentOfL2())
    printer << " percent of l2";
}

/// An attribute whose body, which stands within others alone, is in brackets.
template <typename AttrTy>
static Attribute parseInBrackets(AsmParser &parser,
                                 ParseResult (*parseBody)(AsmParser &,
                                                          AttrTy &)) {
  AttrTy attr;
  if (parser.parseLess() || parseBody(parser, attr) || parser.parseGreater())
    return {};
  return attr;
}

Attribute RangeAttr::parse(AsmParser &parser, Type) {
  return parseInBrackets(parser, parseRangeBody);
}

void RangeAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printRangeBody(printer, *this);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// AlternativeAttr
//===----------------------------------------------------------------------===//

LogicalResult AlternativeAttr::verify(EmitError emitError, TileAttrInterface,
                                      RangeAttr, int64_t wave) {
  if (wave > kMostWave)
    return emitError() << "expects wave to be at most " << kMostWave
                       << " ns, found " << wave;
  if (wave < 0)
    return emitError() << "expects wave to be at least 0, found " << wave;
  return success();
}

/// #fp8moe.two_pass<...> for mean_length up_to 256 wave 46123
static ParseResult parseAlternativeBody(AsmParser &parser,
                                        AlternativeAttr &alternative) {
  SMLoc loc = parser.getCurrentLocation();
  TileAttrInterface tile;
  RangeAttr range;
  int64_t wave = 0;
  if (parser.parseAttribute(tile) ||
      (succeeded(parser.parseOptionalKeyword("for")) &&
       parseRangeBody(parser, range)) ||
      (succeeded(parser.parseOptionalKeyword("wave")) &&
       parser.parseInteger(wave)))
    return failure();
  alternative = parser.getChecked<AlternativeAttr>(loc, parser.getContext(),
                                                   tile, range, wave);
  return success(static_cast<bool>(alternative));
}

static void printAlternativeBody(AsmPrinter &printer,
                                 AlternativeAttr alternative) {
  printer << alternative.getTile();
  if (alternative.getRange()) {
    printer << " for ";
    printRangeBody(printer, alternative.getRange());
  }
  if (alternative.getWave() != 0)
    printer << " wave " << alternative.getWave();
}

Attribute AlternativeAttr::parse(AsmParser &parser, Type) {
  return parseInBrackets(parser, parseAlternativeBody);
}

void AlternativeAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAlternativeBody(printer, *this);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// KernelChoiceAttr
//===----------------------------------------------------------------------===//

KernelChoiceAttr KernelChoiceAttr::get(MLIRContext *context,
                                       ArrayRef<AlternativeAttr> alternatives,
                                       bool leastWaves) {
  SmallVector<Attribute> entries(alternatives.begin(), alternatives.end());
  return get(context, ArrayAttr::get(context, entries), leastWaves);
}

KernelChoiceAttr KernelChoiceAttr::get(MLIRContext *context,
                                       TileAttrInterface tile) {
  return get(context, AlternativeAttr::get(context, tile, RangeAttr(), 0));
}

LogicalResult KernelChoiceAttr::verify(EmitError emitError,
                                       ArrayAttr alternatives,
                                       bool leastWaves) {
  if (alternatives.empty())
    return emitError() << "expects at least one alternative; leave 'tiles' out "
                          "and fp8moe-select-tiles chooses";
  for (Attribute entry : alternatives) {
    auto alternative = dyn_cast<AlternativeAttr>(entry);
    if (!alternative)
      return emitError() << "expects alternatives, found " << entry;
    if (leastWaves && alternative.getRange())
      return emitError() << "expects no range where the least waves decide, "
                            "found "
                         << alternative.getRange();
    if (leastWaves && alternative.getWave() == 0)
      return emitError() << "expects the time of a wave in nanoseconds, such "
                            "as 'wave 40000', behind "
                         << alternative.getTile();
    if (!leastWaves && alternative.getWave() != 0)
      return emitError() << "expects the time of a wave only behind "
                            "'least_waves', found 'wave "
                         << alternative.getWave() << "'";
  }
  return success();
}

ParseResult fp8moe::parseKernelChoice(AsmParser &parser,
                                      KernelChoiceAttr &choice) {
  SMLoc loc = parser.getCurrentLocation();
  bool leastWaves = succeeded(parser.parseOptionalKeyword("least_waves"));
  SmallVector<Attribute> alternatives;
  if (parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            AlternativeAttr alternative;
            if (parseAlternativeBody(parser, alternative))
              return failure();
            alternatives.push_back(alternative);
            return success();
          }))
    return failure();
  MLIRContext *context = parser.getContext();
  choice = parser.getChecked<KernelChoiceAttr>(
      loc, context, ArrayAttr::get(context, alternatives), leastWaves);
  return success(static_cast<bool>(choice));
}

void fp8moe::printKernelChoice(AsmPrinter &printer, Operation *,
                               KernelChoiceAttr choice) {
  if (choice.getLeastWaves())
    printer << "least_waves ";
  printer << "[";
  llvm::interleaveComma(choice.getEntries(), printer,
                        [&](AlternativeAttr alternative) {
                          printAlternativeBody(printer, alternative);
                        });
  printer << "]";
}

Attribute KernelChoiceAttr::parse(AsmParser &parser, Type) {
  return parseInBrackets(parser, parseKernelChoice);
}

void KernelChoiceAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printKernelChoice(printer, /*op=*/nullptr, *this);
  printer << ">";
}
