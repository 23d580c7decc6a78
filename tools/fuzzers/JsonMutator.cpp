//===- JsonMutator.cpp - Changes to JSON ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mutators.h"

#include "fp8moe/Support/Json.h"

using namespace fuzz;
using fp8moe::support::Json;

static Json parse(llvm::StringRef text) {
  return Json::parse(text.begin(), text.end(), nullptr,
                     /*allow_exceptions=*/false);
}

static std::string dump(const Json &root) {
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

static void collect(Json &value, std::vector<Json *> &nodes) {
  nodes.push_back(&value);
  if (value.is_structured())
    for (Json &child : value)
      collect(child, nodes);
}

static Json makeScalar(Random &random) {
  switch (random.below(8)) {
  case 0:
    return nullptr;
  case 1:
    return random.oneIn(2);
  case 2:
    return Json::array();
  case 3:
    return Json::object();
  case 4:
    return random.oneIn(2) ? "" : std::string("a\0b/../\xff\"", 9);
  case 5:
    return random.oneIn(2) ? 1.5 : 1e300;
  default: {
    llvm::StringRef number = drawBoundary(random);
    // Not every boundary is a number of JSON's.
    Json value = parse(number);
    return value.is_discarded() ? Json(number.str()) : value;
  }
  }
}

/// Neighbours and small indices are as telling as numbers at boundaries.
static void changeNumber(Json &value, Random &random) {
  if (value.is_number_integer() && random.oneIn(2))
    value = static_cast<int64_t>(value.get<uint64_t>() + random.below(5) - 2);
  else
    value = random.oneIn(2) ? Json(random.below(16)) : makeScalar(random);
}

static void changeChildren(Json &value, Random &random) {
  auto drawChild = [&] {
    return std::next(value.begin(), random.below(value.size()));
  };
  auto child = drawChild();
  switch (random.below(4)) {
  case 0:
    value.erase(child);
    return;
  case 1:
    if (value.is_array())
      value.insert(child, Json(*child));
    else
      value[child.key() + "_"] = Json(*child);
    return;
  case 2: {
    Json copy = *child;
    *drawChild() = std::move(copy);
    return;
  }
  default:
    std::swap(*child, *drawChild());
    return;
  }
}

static void mutateTree(Json &root, Random &random) {
  std::vector<Json *> nodes;
  collect(root, nodes);
  Json &node = *random.pick(nodes);
  switch (random.below(8)) {
  case 0:
    node = makeScalar(random);
    return;
  case 1: {
    Json wrapped =
        random.oneIn(2) ? Json::array({node}) : Json{{"value", node}};
    node = std::move(wrapped);
    return;
  }
  default:
    if (node.is_structured() && !node.empty())
      changeChildren(node, random);
    else if (node.is_number())
      changeNumber(node, random);
    else
      node = Json(*random.pick(nodes));
    return;
  }
}

std::string fuzz::mutateJson(llvm::StringRef text, Random &random) {
  Json root = parse(text);
  std::string result = text.str();
  if (!root.is_discarded()) {
    do
      mutateTree(root, random);
    while (random.oneIn(2));
    result = dump(root);
  }
  // Deep nesting is refused, not followed until the stack ends.
  if (random.oneIn(500)) {
    size_t depth = 1 + random.below(random.oneIn(2) ? 600 : 200000);
    result.insert(random.below(result.size() + 1), depth,
                  random.oneIn(2) ? '[' : '{');
  }
  return result;
}

std::string fuzz::crossOverJson(llvm::StringRef text, llvm::StringRef other,
                                Random &random) {
  Json root = parse(text), otherRoot = parse(other);
  if (root.is_discarded() || otherRoot.is_discarded())
    return text.str();
  std::vector<Json *> nodes, others;
  collect(root, nodes);
  collect(otherRoot, others);
  *random.pick(nodes) = *random.pick(others);
  return dump(root);
}
