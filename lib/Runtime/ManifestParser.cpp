//===- ManifestParser.cpp - From manifest.json to a Manifest --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"
#include "Manifest.h"
#include "fp8moe/Support/DataType.h"

#include <algorithm>
#include <charconv>
#include <set>

using namespace fp8moe::runtime;
using namespace fp8moe::support;

namespace {

constexpr int64_t schemaVersion = 1;
/// Far above any real device; keeps the arithmetic on sizes in range.
constexpr int64_t maxAlign = int64_t(1) << 30;

struct OpInfo {
  const char *name;
  ValueOp value;
  size_t arity;
};

constexpr OpInfo opInfos[] = {
    {"const", ValueOp::Const, 1},     {"dim", ValueOp::Dim, 2},
    {"stride", ValueOp::Stride, 2},   {"add", ValueOp::Add, 2},
    {"sub", ValueOp::Sub, 2},         {"mul", ValueOp::Mul, 2},
    {"div", ValueOp::Div, 2},         {"ceildiv", ValueOp::CeilDiv, 2},
    {"rem", ValueOp::Rem, 2},         {"max", ValueOp::Max, 2},
    {"min", ValueOp::Min, 2},         {"select", ValueOp::Select, 3},
    {"lt", ValueOp::Lt, 2},           {"le", ValueOp::Le, 2},
    {"eq", ValueOp::Eq, 2},           {"ne", ValueOp::Ne, 2},
    {"and", ValueOp::And, 2},         {"or", ValueOp::Or, 2},
    {"aligned", ValueOp::Aligned, 2}, {"device_attr", ValueOp::DeviceAttr, 1},
};

// Limits of tensor maps and clusters, from the descriptions of
// cuTensorMapEncodeTiled and of clusters that every device runs.
constexpr size_t maxTensorMapRank = 5;
constexpr int64_t maxBoxExtent = 256;
constexpr int64_t maxClusterBlocks = 8;

/// A spelling in the manifest and what it stands for.
template <typename T> struct Spelling {
  const char *name;
  T value;
};

constexpr Spelling<DeviceAttribute> deviceAttributes[] = {
    {"multiprocessors", DeviceAttribute::Multiprocessors},
    {"l2_bytes", DeviceAttribute::L2Bytes},
    {"memory_bandwidth", DeviceAttribute::MemoryBandwidth}};
static_assert(std::size(deviceAttributes) == numDeviceAttributes);

constexpr Spelling<Role> roles[] = {{"input", Role::Input},
                                    {"output", Role::Output},
                                    {"workspace", Role::Workspace}};

constexpr Spelling<TargetKind> targetKinds[] = {{"cpu", TargetKind::CPU},
                                                {"nvvm", TargetKind::NVVM},
                                                {"rocdl", TargetKind::ROCDL}};

/// The name of `value`, which the table has.
template <typename Table, typename T>
const char *spell(const Table &table, T value) {
  return std::find_if(std::begin(table), std::end(table),
                      [&](const auto &entry) { return entry.value == value; })
      ->name;
}

/// Reads one of a fixed set of strings.
template <typename T, size_t n>
T parseEnum(const JsonReader &reader, const Spelling<T> (&spellings)[n]) {
  std::string name = reader.asString(), known;
  for (const Spelling<T> &spelling : spellings) {
    if (name == spelling.name)
      return spelling.value;
    known += (known.empty() ? "'" : ", '") + std::string(spelling.name) + "'";
  }
  reader.expected("one of " + known);
}

/// Appends what `parse` reads from each entry of an array.
template <typename T, typename Parse, typename... Args>
void parseEntries(const JsonReader &reader, std::vector<T> &entries,
                  Parse parse, const Args &...args) {
  for (size_t i = 0, e = reader.size(); i < e; ++i)
    entries.push_back(parse(reader[i], args...));
}

/// Reads an integer or {"value": i} with i below `numValues`.
Scalar parseScalar(const JsonReader &reader, size_t numValues) {
  if (!reader.isObject())
    return {false, reader.asInteger()};
  reader.allowKeys({"value"});
  return {true, int64_t(reader["value"].asIndex(numValues, "earlier values"))};
}

/// Reads a scalar that is known before the program runs.
Scalar parseEarlyScalar(const JsonReader &reader, const Program &program) {
  Scalar scalar = parseScalar(reader, program.values.size());
  if (program.isLate(scalar))
    reader.invalid("value " + std::to_string(scalar.number) +
                   " depends on addresses, which are not known before the "
                   "program runs");
  return scalar;
}

/// Reads an entry of "shape" or "strides". `freeKey` is "dim" or "stride":
/// {freeKey: [buffer, dimension]} is an entry that the caller binds.
Extent parseExtent(const JsonReader &reader, const Buffer &buffer,
                   size_t bufferIndex, size_t dimension, const char *freeKey,
                   size_t numValues) {
  if (!reader.isObject())
    return Scalar{false, reader.asInteger(0)};
  if (!reader.has(freeKey))
    return parseScalar(reader, numValues);
  reader.allowKeys({freeKey});
  if (buffer.role != Role::Input)
    reader.invalid("only an input has entries that the caller binds; use "
                   "{\"value\": i}");
  JsonReader place = reader[freeKey];
  if (place.size() != 2 || place[0].asInteger() != int64_t(bufferIndex) ||
      place[1].asInteger() != int64_t(dimension))
    place.expected("[" + std::to_string(bufferIndex) + ", " +
                   std::to_string(dimension) +
                   "], this very entry; use {\"value\": i} for others");
  return std::nullopt;
}

int64_t parseAlign(const JsonReader &reader) {
  int64_t align = reader.asInteger(1, maxAlign);
  if (align & (align - 1))
    reader.expected("a power of two");
  return align;
}

Buffer parseBuffer(const JsonReader &reader, size_t index, size_t numBuffers,
                   size_t numValues) {
  reader.allowKeys(
      {"role", "name", "dtype", "shape", "strides", "align", "may_overwrite"});
  Buffer buffer;
  buffer.role = parseEnum(reader["role"], roles);
  if (buffer.role != Role::Workspace || reader.has("name"))
    buffer.name = reader["name"].asName();

  std::string dtype = reader["dtype"].asString();
  buffer.dtype = findDataType(dtype);
  if (!buffer.dtype)
    reader["dtype"].expected("one of " + listDataTypes());

  JsonReader shape = reader["shape"], strides = reader["strides"];
  if (shape.size() > size_t(kMaxRank))
    shape.invalid("more than " + std::to_string(kMaxRank) + " dimensions");
  if (strides.size() != shape.size())
    strides.invalid("has " + std::to_string(strides.size()) +
                    " entries, but the shape has " +
                    std::to_string(shape.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    buffer.shape.push_back(
        parseExtent(shape[i], buffer, index, i, "dim", numValues));
    buffer.strides.push_back(
        parseExtent(strides[i], buffer, index, i, "stride", numValues));
  }
  buffer.align = parseAlign(reader["align"]);
  if (reader.has("may_overwrite")) {
    if (buffer.role != Role::Output)
      reader["may_overwrite"].invalid("only outputs overwrite inputs");
    buffer.mayOverwrite =
        reader["may_overwrite"].asIndex(numBuffers, "buffers");
  }
  return buffer;
}

/// Reads the next entry of "values", which may refer to earlier ones.
Value parseValue(const JsonReader &reader, const Program &program) {
  reader.allowKeys({"op", "args"});
  std::string name = reader["op"].asString();
  const OpInfo *info =
      std::find_if(std::begin(opInfos), std::end(opInfos),
                   [&](const OpInfo &info) { return name == info.name; });
  if (info == std::end(opInfos))
    reader["op"].invalid("unknown op '" + name + "'");

  JsonReader args = reader["args"];
  if (args.size() != info->arity)
    args.invalid("'" + name + "' takes " + std::to_string(info->arity) +
                 " arguments, found " + std::to_string(args.size()));
  Value value;
  value.op = info->value;
  if (value.op == ValueOp::Const) {
    value.args[0].number = args[0].asInteger();
    return value;
  }
  if (value.op == ValueOp::DeviceAttr) {
    value.args[0].number = int64_t(parseEnum(args[0], deviceAttributes));
    return value;
  }
  bool readsBuffer = value.op == ValueOp::Dim || value.op == ValueOp::Stride ||
                     value.op == ValueOp::Aligned;
  if (!readsBuffer) {
    for (size_t i = 0; i < info->arity; ++i) {
      value.args[i] = parseScalar(args[i], program.values.size());
      value.isLate |= program.isLate(value.args[i]);
    }
    return value;
  }

  size_t bufferIndex = args[0].asIndex(program.buffers.size(), "buffers");
  if (value.op == ValueOp::Aligned) {
    value.args[0].number = int64_t(bufferIndex);
    value.args[1].number = parseAlign(args[1]);
    value.isLate = true;
    return value;
  }
  const Buffer &buffer = program.buffers[bufferIndex];
  size_t dimension = args[1].asIndex(buffer.rank(), "dimensions");
  value.args[0].number = int64_t(bufferIndex);
  value.args[1].number = int64_t(dimension);
  const Extent &extent = value.op == ValueOp::Dim ? buffer.shape[dimension]
                                                  : buffer.strides[dimension];
  if (extent && extent->isValue &&
      extent->number >= int64_t(program.values.size()))
    reader.invalid("reads an entry of buffer " + std::to_string(bufferIndex) +
                   " that is value " + std::to_string(extent->number) +
                   ", which is not an earlier one");
  return value;
}

std::array<Scalar, 3> parseGrid(const JsonReader &reader,
                                const Program &program) {
  if (reader.size() != 3)
    reader.expected("three extents");
  std::array<Scalar, 3> grid;
  for (size_t i = 0; i < 3; ++i)
    grid[i] = parseEarlyScalar(reader[i], program);
  return grid;
}

/// Reads the extents of a block or cluster, `max` in all; `what` is of what.
std::array<uint32_t, 3> parseExtents(const JsonReader &reader, int64_t max,
                                     const char *what) {
  if (reader.size() != 3)
    reader.expected("three extents");
  std::array<uint32_t, 3> extents;
  for (size_t i = 0; i < 3; ++i)
    extents[i] = reader[i].asInteger(1, max);
  if (extents[0] * extents[1] * extents[2] > max)
    reader.expected("at most " + std::to_string(max) + " " + what);
  return extents;
}

/// Reads a number of bytes that is one of `choices`.
uint32_t parseChoice(const JsonReader &reader,
                     const std::array<int64_t, 4> &choices) {
  int64_t bytes = reader.asInteger();
  std::string known;
  for (int64_t choice : choices) {
    if (bytes == choice)
      return uint32_t(bytes);
    known += (known.empty() ? "" : ", ") + std::to_string(choice);
  }
  reader.expected("one of " + known);
}

TensorMap parseTensorMap(const JsonReader &reader, const Program &program) {
  reader.allowKeys(
      {"buffer", "offset", "sizes", "strides", "box", "swizzle", "promotion"});
  TensorMap map;
  map.buffer = reader["buffer"].asIndex(program.buffers.size(), "buffers");
  if (reader.has("offset"))
    map.offset = parseEarlyScalar(reader["offset"], program);
  JsonReader sizes = reader["sizes"], strides = reader["strides"],
             box = reader["box"];
  parseEntries(sizes, map.sizes, parseEarlyScalar, program);
  parseEntries(strides, map.strides, parseEarlyScalar, program);
  if (map.sizes.empty() || map.sizes.size() > maxTensorMapRank)
    sizes.expected("1 to " + std::to_string(maxTensorMapRank) + " entries");
  if (map.strides.size() + 1 != map.sizes.size())
    strides.expected("one entry less than there are sizes");
  if (box.size() != map.sizes.size())
    box.expected("as many entries as there are sizes");
  for (size_t i = 0, e = box.size(); i < e; ++i)
    map.box.push_back(box[i].asInteger(1, maxBoxExtent));
  map.swizzle = parseChoice(reader["swizzle"], {0, 32, 64, 128});
  if (reader.has("promotion"))
    map.promotion = parseChoice(reader["promotion"], {0, 64, 128, 256});
  return map;
}

Argument parseArgument(const JsonReader &reader, const Program &program) {
  Argument argument;
  if (reader.isObject() && reader.has("buffer")) {
    reader.allowKeys({"buffer"});
    argument.kind = Argument::Kind::Buffer;
    argument.index =
        reader["buffer"].asIndex(program.buffers.size(), "buffers");
  } else if (reader.isObject() && reader.has("tensor_map")) {
    reader.allowKeys({"tensor_map"});
    argument.kind = Argument::Kind::TensorMap;
    argument.index =
        reader["tensor_map"].asIndex(program.tensorMaps.size(), "tensor maps");
  } else {
    argument.scalar = parseScalar(reader, program.values.size());
  }
  return argument;
}

Launch parseLaunch(const JsonReader &reader, const Program &program,
                   TargetKind kind) {
  reader.allowKeys({"kernel", "grid", "block", "shared", "cluster",
                    "cooperative", "programmatic", "when", "args"});
  Launch launch;
  launch.kernel = reader["kernel"].asName();
  launch.grid = parseGrid(reader["grid"], program);
  launch.block = parseExtents(reader["block"], 1024, "threads");
  launch.shared = reader["shared"].asInteger(0, 1 << 30);
  if (reader.has("cluster")) {
    if (kind != TargetKind::NVVM)
      reader["cluster"].invalid("only targets of kind 'nvvm' have clusters");
    launch.cluster =
        parseExtents(reader["cluster"], maxClusterBlocks, "blocks");
  }
  if (reader.has("cooperative")) {
    launch.cooperative = reader["cooperative"].asBool();
    if (launch.cooperative && kind == TargetKind::CPU)
      reader["cooperative"].invalid("only GPUs launch cooperatively");
  }
  if (reader.has("programmatic")) {
    launch.programmatic = reader["programmatic"].asBool();
    if (launch.programmatic && kind != TargetKind::NVVM)
      reader["programmatic"].invalid(
          "only targets of kind 'nvvm' have programmatic launches");
  }
  if (reader.has("when"))
    launch.when = parseScalar(reader["when"], program.values.size());
  parseEntries(reader["args"], launch.args, parseArgument, program);
  return launch;
}

Requirement parseRequirement(const JsonReader &reader, const Program &program) {
  reader.allowKeys({"cond", "message"});
  return {parseEarlyScalar(reader["cond"], program),
          reader["message"].asString()};
}

/// Sorts the buffers by role and checks that inputs and outputs have names of
/// their own.
void indexBuffers(const JsonReader &reader, Program &program) {
  std::set<std::string> names;
  // In the order of Role.
  std::vector<size_t> *lists[] = {&program.inputs, &program.outputs,
                                  &program.workspaces};
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer &buffer = program.buffers[i];
    if (!buffer.name.empty() && !names.insert(buffer.name).second)
      reader[i].invalid("the name '" + buffer.name + "' is taken");
    lists[size_t(buffer.role)]->push_back(i);
  }
}

/// An output only takes the place of an input that is like it, and no two take
/// that of the same.
void checkOverwritten(const JsonReader &reader, const Program &program) {
  std::set<size_t> overwritten;
  for (size_t i : program.outputs) {
    const Buffer &output = program.buffers[i];
    if (!output.mayOverwrite)
      continue;
    const Buffer &input = program.buffers[*output.mayOverwrite];
    JsonReader entry = reader[i];
    JsonReader place = entry["may_overwrite"];
    if (input.role != Role::Input)
      place.invalid("buffer " + std::to_string(*output.mayOverwrite) +
                    " is no input");
    if (input.dtype != output.dtype || input.rank() != output.rank())
      place.invalid("'" + input.name + "' has another type or rank than '" +
                    output.name + "'");
    if (!overwritten.insert(*output.mayOverwrite).second)
      place.invalid("another output overwrites '" + input.name + "', too");
  }
}

/// The caller needs all sizes before it has any address.
void checkExtentsAreEarly(const JsonReader &reader, const Program &program) {
  for (size_t i = 0; i < program.buffers.size(); ++i)
    for (const std::vector<Extent> &extents :
         {program.buffers[i].shape, program.buffers[i].strides})
      for (const Extent &extent : extents)
        if (extent && program.isLate(*extent))
          reader[i].invalid("a size is value " +
                            std::to_string(extent->number) +
                            ", which depends on addresses");
}

Program parseProgram(const JsonReader &reader, TargetKind kind) {
  reader.allowKeys(
      {"name", "buffers", "values", "requires", "tensor_maps", "launches"});
  Program program;
  program.name = reader["name"].asName();
  JsonReader buffers = reader["buffers"], values = reader["values"],
             launches = reader["launches"];
  for (size_t i = 0, e = buffers.size(); i < e; ++i)
    program.buffers.push_back(
        parseBuffer(buffers[i], i, buffers.size(), values.size()));
  indexBuffers(buffers, program);
  checkOverwritten(buffers, program);
  parseEntries(values, program.values, parseValue, program);
  checkExtentsAreEarly(buffers, program);
  if (reader.has("requires"))
    parseEntries(reader["requires"], program.requirements, parseRequirement,
                 program);
  if (reader.has("tensor_maps")) {
    JsonReader maps = reader["tensor_maps"];
    if (kind != TargetKind::NVVM)
      maps.invalid("only targets of kind 'nvvm' have tensor maps");
    parseEntries(maps, program.tensorMaps, parseTensorMap, program);
  }
  parseEntries(launches, program.launches, parseLaunch, program, kind);
  return program;
}

Target parseTarget(const JsonReader &reader) {
  static constexpr Spelling<int> flavours[] = {{"fn", 0}, {"fnuz", 1}};
  reader.allowKeys({"chip", "kind", "fp8"});
  Target target;
  target.chip = reader["chip"].asName();
  target.kind = parseEnum(reader["kind"], targetKinds);
  parseEnum(reader["fp8"], flavours);
  return target;
}

uint64_t parseChecksum(const JsonReader &reader) {
  std::string text = reader.asString();
  if (text.size() != 16 ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    reader.expected("16 lower-case hex digits");
  return std::stoull(text, nullptr, 16);
}

/// The file must lie in the artifact's own folder.
std::string parseFileName(const JsonReader &reader) {
  std::string name = reader.asName();
  if (name.find('/') != std::string::npos || name == "." || name == "..")
    reader.expected("the plain name of a file in the artifact's folder");
  return name;
}

Binary parseBinary(const JsonReader &reader, const Target &target) {
  static constexpr Spelling<BinaryFormat> formats[] = {
      {"so", BinaryFormat::SharedObject},
      {"cubin", BinaryFormat::Cubin},
      {"ptx", BinaryFormat::PTX},
      {"hsaco", BinaryFormat::HSACO}};
  reader.allowKeys({"file", "format", "xxh3"});
  Binary binary;
  binary.file = parseFileName(reader["file"]);
  binary.format = parseEnum(reader["format"], formats);
  binary.xxh3 = parseChecksum(reader["xxh3"]);

  // In the order of BinaryFormat.
  constexpr TargetKind kinds[] = {TargetKind::CPU, TargetKind::NVVM,
                                  TargetKind::NVVM, TargetKind::ROCDL};
  if (kinds[size_t(binary.format)] != target.kind)
    reader["format"].invalid("a target of kind '" +
                             std::string(spell(targetKinds, target.kind)) +
                             "' has no binaries of this format");
  return binary;
}

/// Reads "1.2.3" as three numbers.
bool parseVersion(const std::string &text, std::array<int, 3> &version) {
  const char *next = text.data(), *end = next + text.size();
  for (int i = 0; i < 3; ++i) {
    if (i > 0) {
      if (next == end || *next != '.')
        return false;
      ++next;
    }
    // A sign would be accepted below.
    if (next == end || *next == '-')
      return false;
    auto [rest, error] = std::from_chars(next, end, version[i]);
    if (error != std::errc())
      return false;
    next = rest;
  }
  return next == end;
}

void checkRuntimeVersion(const JsonReader &reader) {
  std::array<int, 3> needed = {}, ours = {};
  std::string text = reader.asString();
  if (!parseVersion(text, needed))
    reader.expected("a version such as \"0.1.0\"");
  if (!parseVersion(FP8MOE_VERSION, ours) || needed > ours)
    fail(FP8MOE_UNSUPPORTED,
         "manifest.json: min_runtime: the artifact needs "
         "the fp8moe runtime ",
         text, " or newer, this one is ", FP8MOE_VERSION,
         "; update the runtime or compile the artifact again");
}

void checkSchema(const JsonReader &reader) {
  int64_t schema = reader.asInteger();
  if (schema != schemaVersion)
    fail(FP8MOE_UNSUPPORTED, "manifest.json: schema: found version ", schema,
         ", but this runtime (", FP8MOE_VERSION, ") reads version ",
         schemaVersion);
}

} // namespace

const char *fp8moe::runtime::toString(Role role) { return spell(roles, role); }

const char *fp8moe::runtime::toString(ValueOp op) { return spell(opInfos, op); }

const char *fp8moe::runtime::toString(DeviceAttribute attribute) {
  return spell(deviceAttributes, attribute);
}

Manifest fp8moe::runtime::parseManifest(std::string_view text) {
  std::string error;
  std::optional<Json> json = parseJson(text, error);
  if (!json)
    fail(FP8MOE_INVALID_ARTIFACT, "manifest.json: ", error);

  // Versions first: a newer manifest may have keys that are unknown here.
  JsonReader reader(*json, "");
  checkSchema(reader["schema"]);
  checkRuntimeVersion(reader["min_runtime"]);
  reader.allowKeys({"schema", "min_runtime", "producer", "target", "binaries",
                    "programs", "decisions"});
  reader["producer"].asString();
  reader["decisions"].size();

  Manifest manifest;
  manifest.target = parseTarget(reader["target"]);
  JsonReader binaries = reader["binaries"];
  parseEntries(binaries, manifest.binaries, parseBinary, manifest.target);
  if (manifest.binaries.empty())
    binaries.expected("at least one binary");

  JsonReader programs = reader["programs"];
  std::set<std::string> names;
  for (size_t i = 0, e = programs.size(); i < e; ++i) {
    manifest.programs.push_back(
        parseProgram(programs[i], manifest.target.kind));
    if (!names.insert(manifest.programs.back().name).second)
      programs[i].invalid("the name is taken by an earlier program");
  }
  return manifest;
}
