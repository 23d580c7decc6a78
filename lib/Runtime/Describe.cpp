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

static const char *toString(Role role) {
  switch (role) {
  case Role::Input:
    return "input";
  case Role::Output:
    return "output";
  case Role::Workspace:
    break;
  }
  return "workspace";
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
    if (buffer.role == Role::Workspace)
      entry["offset"] = offsets[i];
    buffers.push_back(std::move(entry));
  }

  Json steps = Json::array();
  size_t next = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    Json args = Json::array();
    for (size_t end = next + launches[i].numArgs; next < end; ++next) {
      const Parameter &parameter = parameters[next];
      if (parameter.isBuffer)
        args.push_back({{"buffer", parameter.index}});
      else
        args.push_back(immediates[parameter.index]);
    }
    steps.push_back({{"kernel", launchDecls[i]->kernel},
                     {"grid", launches[i].grid},
                     {"block", launches[i].block},
                     {"shared", launches[i].shared},
                     {"args", std::move(args)}});
  }

  Json result;
  result["program"] = decl.name;
  result["chip"] = artifact->target().chip;
  result["binary"] =
      artifact->backend() ? artifact->backend()->binaryFile() : "";
  result["workspace"] = {{"bytes", workspaceBytes}, {"align", workspaceAlign}};
  result["buffers"] = std::move(buffers);
  result["launches"] = std::move(steps);
  return result.dump(/*indent=*/2, ' ', /*ensure_ascii=*/false,
                     Json::error_handler_t::replace);
}
