//===- Describe.cpp - A call as JSON --------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"
#include "fp8moe/Support/Json.h"

using namespace fp8moe::runtime;
using fp8moe::support::Json;

Json fp8moe_call::describeParameter(const Parameter &parameter) const {
  switch (parameter.kind) {
  case Parameter::Kind::Buffer:
    return {{"buffer", parameter.index}};
  case Parameter::Kind::LateValue:
    return sizes.values[parameter.index];
  case Parameter::Kind::Immediate:
    return immediates[parameter.index];
  case Parameter::Kind::TensorMap:
    break;
  }
  ResolvedTensorMap map = resolveTensorMap(decl, parameter.index, sizes);
  const TensorMapRequest &request = map.request;
  auto take = [&](const auto &array, size_t count) {
    return Json(std::vector(array.begin(), array.begin() + count));
  };
  return {{"tensor_map",
           {{"buffer", map.buffer},
            {"offset", map.offset},
            {"sizes", take(request.sizes, request.rank)},
            {"strides", take(request.strides, request.rank - 1)},
            {"box", take(request.box, request.rank)},
            {"swizzle", request.swizzle},
            {"promotion", request.promotion}}}};
}

/// The attributes that the program asked of the device, with their values.
Json fp8moe_call::describeAttributes() const {
  Json attributes = Json::object();
  for (size_t i = 0; i < decl.values.size(); ++i)
    if (decl.values[i].op == ValueOp::DeviceAttr)
      attributes[toString(DeviceAttribute(
          int(decl.values[i].args[0].number)))] = sizes.values[i];
  return attributes;
}

std::string fp8moe_call::describe() const {
  Json buffers = Json::array();
  for (size_t i = 0; i < decl.buffers.size(); ++i) {
    const Buffer &buffer = decl.buffers[i];
    Json entry;
    entry["role"] = toString(buffer.role);
    if (!buffer.name.empty())
      entry["name"] = buffer.name;
    entry["dtype"] = buffer.dtype->name;
    entry["shape"] = sizes.buffers[i].shape;
    entry["strides"] = sizes.buffers[i].strides;
    entry["bytes"] = sizes.buffers[i].bytes;
    entry["align"] = buffer.align;
    if (buffer.mayOverwrite)
      entry["may_overwrite"] = *buffer.mayOverwrite;
    if (buffer.role == Role::Workspace)
      entry["offset"] = offsets[i];
    buffers.push_back(std::move(entry));
  }

  Json steps = Json::array();
  size_t next = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    size_t first = next;
    next += launches[i].numArgs;
    // Parameters that depend on addresses are described for aligned ones.
    const Launch &launch = *launchDecls[i];
    if (launch.when && sizes.get(*launch.when) == 0)
      continue;
    Json args = Json::array();
    for (size_t j = first; j < next; ++j)
      args.push_back(describeParameter(parameters[j]));
    Json step = {{"kernel", launch.kernel},
                 {"grid", launches[i].grid},
                 {"block", launches[i].block},
                 {"shared", launches[i].shared},
                 {"args", std::move(args)}};
    if (launch.cluster)
      step["cluster"] = *launch.cluster;
    if (launch.cooperative)
      step["cooperative"] = true;
    if (launch.programmatic)
      step["programmatic"] = true;
    steps.push_back(std::move(step));
  }

  Json result;
  result["program"] = decl.name;
  result["chip"] = artifact->target().chip;
  result["binary"] =
      artifact->backend() ? artifact->backend()->binaryFile() : "";
  if (Json attributes = describeAttributes(); !attributes.empty())
    result["device_attributes"] = std::move(attributes);
  result["workspace"] = {{"bytes", workspaceBytes}, {"align", workspaceAlign}};
  result["buffers"] = std::move(buffers);
  result["launches"] = std::move(steps);
  return result.dump(/*indent=*/2, ' ', /*ensure_ascii=*/false,
                     Json::error_handler_t::replace);
}
