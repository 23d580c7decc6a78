//===- Session.h - What a reader of inputs has around it ------ -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_SESSION_H
#define FP8MOE_TOOLS_FUZZ_SESSION_H

#include "Corpus.h"
#include "Input.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <array>
#include <atomic>
#include <memory>
#include <optional>

namespace fuzz {

/// Counts of outcomes for the inputs of one kind.
struct Counters {
  std::atomic<uint64_t> inputs{0};
  /// The verifier, or the reader, took it.
  std::atomic<uint64_t> accepted{0};
  /// It went through all stages that were asked for.
  std::atomic<uint64_t> lowered{0};
  /// Refused with an error that says why.
  std::atomic<uint64_t> refused{0};
  /// Nanoseconds of processor time.
  std::atomic<uint64_t> time{0};
};

/// The state of a worker, for its supervisor. Lies in memory that both share,
/// so that it outlives the worker.
struct Slot {
  static constexpr uint64_t kNone = ~uint64_t(0);
  /// The number of the input that is being read.
  std::atomic<uint64_t> input{kNone};
  /// When it began: processor time of the worker, and time of the clock.
  std::atomic<int64_t> beganCpu{0}, beganClock{0};
  /// The stage or pass that is running.
  char stage[96] = {};
  /// A promise that the worker saw broken: a short name, and the details.
  char find[128] = {};
  char message[4000] = {};
  std::array<Counters, kNumKinds> counters;
};

/// The stage in which only upstream's reader of bytecode runs.
inline constexpr llvm::StringLiteral kReadBytecode = "read bytecode";

/// The exit status of a worker that reported a find itself.
inline constexpr int kFindStatus = 77;

/// The surroundings of the inputs that one worker reads.
class Session {
public:
  Session(const Corpus &corpus, std::string scratch, Slot &slot)
      : corpus(corpus), scratch(std::move(scratch)), slot(slot) {}

  /// Begins an input; now and then with a new context.
  void begin();

  const Corpus &getCorpus() const { return corpus; }

  /// A folder for this worker alone.
  const std::string &getScratch() const { return scratch; }

  /// The context of the current input.
  mlir::MLIRContext &getContext();

  /// Names the stage that begins.
  void enter(llvm::StringRef stage);

  /// Ends the worker, because a promise is broken. Equal names are one find.
  [[noreturn]] void report(llvm::StringRef name, const llvm::Twine &message);

  /// Called when a stage failed: somebody must have said why, and where.
  void expectError(bool isLocated = true);

  /// The first error of the current input.
  const std::string &getFirstError() const { return firstError; }

private:
  const Corpus &corpus;
  std::string scratch;
  Slot &slot;
  std::unique_ptr<mlir::MLIRContext> context;
  size_t inputsInContext = 0;
  size_t numErrors = 0;
  bool hasUnlocatedError = false;
  std::string firstError;
};

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_SESSION_H
