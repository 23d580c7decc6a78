//===- IR.h - What the classes of the Python module hold --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Nothing here dangles. A module owns its operations; whoever refers to one
// keeps the module alive, and remembers its generation: passes, which may
// delete any operation, begin a new one. A function whose building failed is
// removed alone; what was in it is remembered by its address, which may be used
// again, and by how many functions had been removed then.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PYTHON_IR_H
#define FP8MOE_PYTHON_IR_H

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"
#include "mlir-c/Support.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fp8moe::python {

namespace nb = nanobind;

//===----------------------------------------------------------------------===//
// Contexts and what they own
//===----------------------------------------------------------------------===//

struct ContextState {
  MlirContext context;
  /// Not the context's own, which could not be exchanged in a forked process.
  MlirLlvmThreadPool threads;

  ContextState();
  ContextState(const ContextState &) = delete;
  ~ContextState();
};

/// To be called in a process that was forked: gives each context new threads in
/// place of those that only its parent has, which nothing may wait for.
void renewThreads();

struct Context {
  std::shared_ptr<ContextState> state = std::make_shared<ContextState>();

  MlirContext get() const { return state->context; }
};

/// Refuses what belongs to another context; MLIR would not notice.
inline void requireSame(const Context &a, const Context &b) {
  if (a.state != b.state)
    throw nb::value_error("these belong to different contexts");
}

/// A type, attribute or location: owned by its context.
template <typename T> struct InContext {
  Context context;
  T value;
};

struct Type : InContext<MlirType> {};
struct TensorType : Type {};
struct Attribute : InContext<MlirAttribute> {};
struct Location : InContext<MlirLocation> {};

//===----------------------------------------------------------------------===//
// Modules and what they own
//===----------------------------------------------------------------------===//

struct ModuleState {
  Context context;
  MlirModule module;
  uint64_t generation = 0;
  /// How many functions were removed.
  uint64_t removals = 0;
  /// Addresses of what was removed in this generation, with the number of
  /// removals that this made.
  std::unordered_map<const void *, uint64_t> removed;

  ModuleState(Context context, MlirModule module)
      : context(std::move(context)), module(module) {}
  ModuleState(const ModuleState &) = delete;
  ~ModuleState();

  /// Outdates everything that was looked up.
  void beginGeneration() {
    ++generation;
    removed.clear();
  }

  /// Whether what lay at `address` was removed after `seenRemovals`.
  bool wasRemoved(const void *address, uint64_t seenRemovals) const {
    if (removals == seenRemovals)
      return false;
    auto found = removed.find(address);
    return found != removed.end() && found->second > seenRemovals;
  }
};

struct Module {
  std::shared_ptr<ModuleState> state;

  const Context &getContext() const { return state->context; }
  MlirModule get() const { return state->module; }
};

/// A part of a module, which must not be older than the last change by passes
/// nor lie in a function that was removed.
template <typename T> class InModule {
public:
  InModule(std::shared_ptr<ModuleState> owner, T value)
      : owner(std::move(owner)), generation(this->owner->generation),
        removals(this->owner->removals), value(value) {}

  T get() const {
    if (generation != owner->generation)
      throw nb::value_error("passes changed the module since this was looked "
                            "up; look it up in the module again");
    if (owner->wasRemoved(value.ptr, removals))
      throw nb::value_error("this was in a function that was removed from the "
                            "module, since an exception ended its building; "
                            "build it again");
    return value;
  }
  const std::shared_ptr<ModuleState> &getOwner() const { return owner; }
  const Context &getContext() const { return owner->context; }

private:
  std::shared_ptr<ModuleState> owner;
  uint64_t generation, removals;
  T value;
};

struct Operation : InModule<MlirOperation> {
  using InModule::InModule;
};
struct Block : InModule<MlirBlock> {
  using InModule::InModule;
};
struct Value : InModule<MlirValue> {
  using InModule::InModule;
};

/// The attributes of an operation, as a mapping.
struct OperationAttributes {
  Operation operation;
};

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

inline MlirStringRef toStringRef(std::string_view text) {
  return mlirStringRefCreate(text.data(), text.size());
}

inline std::string toString(MlirStringRef text) {
  return std::string(text.data, text.length);
}

/// Text for people, which may quote a tool or a path that is not UTF-8.
inline nb::object decode(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), text.size(), "backslashreplace"));
}

/// An MlirStringCallback that appends to the std::string in `userData`.
void appendTo(MlirStringRef text, void *userData);

/// The output of a print function of the C API.
template <typename Print, typename T>
std::string print(Print function, T value) {
  std::string text;
  function(value, appendTo, &text);
  return text;
}

/// The Python object of the most derived class.
nb::object wrap(const Context &context, MlirType type);
nb::object wrap(const Context &context, MlirAttribute attribute);
nb::object wrap(const std::shared_ptr<ModuleState> &owner,
                MlirOperation operation);

/// The text of a string while that lives; raises UnicodeEncodeError when a
/// character has no encoding.
std::string_view toText(nb::handle value);

/// The attribute of a bool, int (i64), float (f64), str, Type, list, dict or
/// Attribute.
MlirAttribute toAttribute(const Context &context, nb::handle value);

/// The value of an attribute that Python has a type for, else the attribute.
nb::object toPython(const Context &context, MlirAttribute attribute);

/// The dictionary attribute of a mapping; entries that are None are left out.
MlirAttribute toDictionary(const Context &context, const nb::dict &entries);

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

/// Collects a context's diagnostics while it lives. Passes may report from
/// several threads, so nothing of Python is touched until `finish`.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MlirContext context);
  DiagnosticCollector(const DiagnosticCollector &) = delete;
  ~DiagnosticCollector();

  /// Raises fp8moe.CompilerError with the diagnostics unless `succeeded`; else
  /// gives warnings to Python's. `failure` is the message if there is none.
  void finish(bool succeeded, const char *failure);

private:
  struct Entry {
    MlirDiagnosticSeverity severity;
    std::string message, location, file;
    unsigned line = 0, column = 0;
    std::vector<Entry> notes;
  };
  static Entry read(MlirDiagnostic diagnostic);
  static nb::object toPython(const Entry &entry);

  MlirContext context;
  MlirDiagnosticHandlerID handler;
  std::mutex mutex;
  std::vector<Entry> entries;
};

//===----------------------------------------------------------------------===//
// Parts of the Python module
//===----------------------------------------------------------------------===//

void bindTypes(nb::module_ &module);
void bindAttributes(nb::module_ &module);
void bindOperations(nb::module_ &module);
void bindModules(nb::module_ &module);
void bindTools(nb::module_ &module);

} // namespace fp8moe::python

#endif // FP8MOE_PYTHON_IR_H
