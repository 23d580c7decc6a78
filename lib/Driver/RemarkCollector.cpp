//===- RemarkCollector.cpp - Remarks of layout passes, once each ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RemarkCollector.h"

#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Remarks/Remark.h"

#include <mutex>
#include <tuple>

using namespace mlir;
using namespace mlir::fp8moe;

struct RemarkCollector::State {
  std::mutex mutex;
  llvm::StringSet<> emitted, taken;
  std::vector<LayoutRemark> remarks;
};

namespace {
/// Layout passes run until nothing changes, and repeat in every round what they
/// do not do.
class CollectOnce : public remark::detail::RemarkEmittingPolicyBase {
public:
  explicit CollectOnce(std::shared_ptr<RemarkCollector::State> state)
      : state(std::move(state)) {}

  void reportRemark(const remark::detail::Remark &remark) override {
    std::string text;
    for (const remark::detail::Remark::Arg &part : remark.getArgs())
      text += part.val;
    std::string key = text;
    llvm::raw_string_ostream(key) << remark.getLocation();
    // Passes run on several functions at once.
    std::lock_guard<std::mutex> lock(state->mutex);
    if (state->emitted.insert(key).second)
      emitRemark(remark.getLocation()) << text;
    if (state->taken.insert(key).second)
      state->remarks.push_back(
          {getLine(remark.getLocation()), remark.getRemarkName().str(),
           remark.getRemarkType() == llvm::remarks::Type::Passed, text});
  }
  void finalize() override {}

private:
  std::shared_ptr<RemarkCollector::State> state;
};
} // namespace

RemarkCollector::RemarkCollector(MLIRContext &context) : context(context) {
  if (context.getRemarkEngine())
    return;
  auto shared = std::make_shared<State>();
  // The first filter is for all kinds, but each kind needs its own to be heard.
  std::string layouts = kLayoutRemarks.str();
  if (succeeded(remark::enableOptimizationRemarks(
          context, /*streamer=*/nullptr, std::make_unique<CollectOnce>(shared),
          {layouts, layouts, layouts, layouts, layouts})))
    state = std::move(shared);
}

RemarkCollector::~RemarkCollector() {
  if (state)
    context.setRemarkEngine(nullptr);
}

std::vector<LayoutRemark> RemarkCollector::take() {
  if (!state)
    return {};
  std::lock_guard<std::mutex> lock(state->mutex);
  std::vector<LayoutRemark> result = std::exchange(state->remarks, {});
  state->taken.clear();
  llvm::sort(result, [](const LayoutRemark &a, const LayoutRemark &b) {
    return std::tie(a.line, a.text) < std::tie(b.line, b.text);
  });
  return result;
}
