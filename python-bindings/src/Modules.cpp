//===- Modules.cpp - Modules, passes and the compiler in Python -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IR.h"

#include "fp8moe-c/Compiler.h"
#include "fp8moe-c/Dialect.h"
#include "mlir-c/Pass.h"

using namespace fp8moe::python;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Raises CompilerError unless the module is valid: passes expect that, but a
/// function that is still being built has no end.
static void requireValid(const Module &module) {
  DiagnosticCollector diagnostics(module.getContext().get());
  diagnostics.finish(mlirOperationVerify(mlirModuleGetOperation(module.get())),
                     "the module is not valid");
}

static Module makeModule(const Context &context, MlirModule module) {
  return {std::make_shared<ModuleState>(context, module)};
}

static Module parse(const Context &context, nb::object source,
                    const std::string &name) {
  std::string text;
  if (nb::isinstance<nb::bytes>(source)) {
    auto bytes = nb::cast<nb::bytes>(source);
    text.assign(bytes.c_str(), bytes.size());
  } else if (nb::isinstance<nb::str>(source)) {
    text = toText(source);
  } else {
    throw nb::type_error("IR is read from a str or from bytes");
  }
  DiagnosticCollector diagnostics(context.get());
  MlirModule module =
      fp8moeModuleParse(context.get(), toStringRef(text), toStringRef(name));
  // The module first gets an owner, which frees it whatever follows.
  bool isValid = !mlirModuleIsNull(module);
  std::optional<Module> result;
  if (isValid)
    result = makeModule(context, module);
  diagnostics.finish(isValid, "the module cannot be parsed");
  return *result;
}

static std::string writeBytecode(const Module &module) {
  std::string bytes;
  mlirOperationWriteBytecode(mlirModuleGetOperation(module.get()), appendTo,
                             &bytes);
  return bytes;
}

static Module cloneModule(const Module &module) {
  MlirOperation copy = mlirOperationClone(mlirModuleGetOperation(module.get()));
  return makeModule(module.getContext(), mlirModuleFromOperation(copy));
}

/// Runs a pass pipeline in its textual form.
static void run(const Module &module, const std::string &pipeline) {
  fp8moeRegisterAllPasses();
  MlirContext context = module.getContext().get();
  std::string error;
  std::unique_ptr<void, void (*)(void *)> manager(
      mlirPassManagerCreate(context).ptr,
      [](void *ptr) { mlirPassManagerDestroy({ptr}); });
  MlirPassManager passes = {manager.get()};
  if (mlirLogicalResultIsFailure(
          mlirParsePassPipeline(mlirPassManagerGetAsOpPassManager(passes),
                                toStringRef(pipeline), appendTo, &error)))
    throw nb::value_error(
        error.substr(error.rfind("error: ", 0) == 0 ? 7 : 0).c_str());
  requireValid(module);
  DiagnosticCollector diagnostics(context);
  module.state->beginGeneration();
  bool succeeded = mlirLogicalResultIsSuccess(
      mlirPassManagerRunOnOp(passes, mlirModuleGetOperation(module.get())));
  diagnostics.finish(succeeded, "the passes failed");
}

static void optimize(const Module &module, const std::string &target,
                     bool optimizeLayouts) {
  requireValid(module);
  DiagnosticCollector diagnostics(module.getContext().get());
  module.state->beginGeneration();
  bool succeeded = mlirLogicalResultIsSuccess(
      fp8moeOptimize(module.get(), toStringRef(target), optimizeLayouts));
  diagnostics.finish(succeeded, "the module cannot be optimized");
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

static std::vector<MlirStringRef>
toStringRefs(const std::vector<std::string> &texts) {
  std::vector<MlirStringRef> refs;
  for (const std::string &text : texts)
    refs.push_back(toStringRef(text));
  return refs;
}

namespace {
/// The options as Python gives them.
struct CompileOptions {
  std::vector<std::string> targets;
  bool optimizeLayouts;
  std::string ptxas, rocm;
  int64_t tokens;
  std::string card;
  std::string policy, recipe, chip;
  std::vector<std::string> filters;
  int64_t precisionTokens;
  std::vector<MlirStringRef> targetRefs = {}, filterRefs = {};

  Fp8moeCompileOptions get() {
    targetRefs = toStringRefs(targets);
    filterRefs = toStringRefs(filters);
    return {targetRefs.data(),
            static_cast<intptr_t>(targetRefs.size()),
            optimizeLayouts,
            toStringRef(ptxas),
            toStringRef(rocm),
            tokens,
            toStringRef(policy),
            toStringRef(recipe),
            toStringRef(chip),
            filterRefs.data(),
            static_cast<intptr_t>(filterRefs.size()),
            precisionTokens,
            toStringRef(card)};
  }
};

/// A copy of a module in a context of its own. Compiling it needs no lock of
/// Python: other threads may go on, and compile too.
class DetachedModule {
public:
  explicit DetachedModule(const Module &module)
      : bytecode(writeBytecode(module)), diagnostics(context.get()) {
    // The parser's errors about bytecode would confuse.
    requireValid(module);
  }

  /// Parses the copy and gives it to `action`, which returns an
  /// MlirLogicalResult.
  template <typename Action> void process(Action action) {
    bool succeeded = false;
    {
      nb::gil_scoped_release release;
      MlirModule module = fp8moeModuleParse(
          context.get(), toStringRef(bytecode), toStringRef("module"));
      if (!mlirModuleIsNull(module)) {
        succeeded = mlirLogicalResultIsSuccess(action(module));
        mlirModuleDestroy(module);
      }
    }
    diagnostics.finish(succeeded, "the module cannot be compiled");
  }

private:
  std::string bytecode;
  Context context;
  DiagnosticCollector diagnostics;
};
} // namespace

/// The report as text and as JSON. `folder` is a path as the system has it.
static std::pair<nb::object, nb::object>
compile(const Module &module, nb::bytes folder, CompileOptions options) {
  DetachedModule copy(module);
  std::pair<std::string, std::string> report;
  copy.process([&](MlirModule detached) {
    Fp8moeCompileOptions cOptions = options.get();
    return fp8moeCompile(
        detached, toStringRef({folder.c_str(), folder.size()}), &cOptions,
        [](MlirStringRef text, void *data) {
          appendTo(
              text,
              &static_cast<std::pair<std::string, std::string> *>(data)->first);
        },
        [](MlirStringRef text, void *data) {
          appendTo(text,
                   &static_cast<std::pair<std::string, std::string> *>(data)
                        ->second);
        },
        &report);
  });
  return {decode(report.first), decode(report.second)};
}

static nb::bytes emit(const Module &module, const std::string &stage,
                      CompileOptions options) {
  DetachedModule copy(module);
  std::string output;
  copy.process([&](MlirModule detached) {
    Fp8moeCompileOptions cOptions = options.get();
    return fp8moeEmit(detached, toStringRef(stage), &cOptions, appendTo,
                      &output);
  });
  return nb::bytes(output.data(), output.size());
}

static std::vector<std::pair<std::string, std::string>> getTargets() {
  std::vector<std::pair<std::string, std::string>> targets;
  for (intptr_t i = 0; i < fp8moeGetNumTargets(); ++i)
    targets.emplace_back(toString(fp8moeTargetGetChip(i)),
                         toString(fp8moeTargetGetDescription(i)));
  return targets;
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void fp8moe::python::bindModules(nb::module_ &module) {
  nb::class_<Module>(module, "Module", "A module of IR, and its owner.")
      .def(
          "__init__",
          [](Module *self, const Location &location) {
            new (self) Module(makeModule(
                location.context, mlirModuleCreateEmpty(location.value)));
          },
          nb::arg("location"))
      .def(nb::init<const Module &>(), nb::arg("other"))
      .def_static("parse_source", parse, nb::arg("context"), nb::arg("source"),
                  nb::arg("name"),
                  nb::sig("def parse_source(context: Context, source: str | "
                          "bytes, name: str) -> Module"))
      .def_prop_ro("context",
                   [](const Module &self) { return self.getContext(); })
      .def_prop_ro(
          "operation",
          [](const Module &self) {
            return wrap(self.state, mlirModuleGetOperation(self.get()));
          },
          nb::sig("def operation(self) -> Operation"))
      .def_prop_ro("body",
                   [](const Module &self) {
                     return Block(self.state, mlirModuleGetBody(self.get()));
                   })
      .def(
          "bytecode",
          [](const Module &self) {
            std::string bytes = writeBytecode(self);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The module as MLIR bytecode.")
      .def("copy", cloneModule)
      .def("run", run, nb::arg("pipeline"),
           "Runs passes, as in 'builtin.module(canonicalize, cse)', on the "
           "module. What was looked up in it before must be looked up again.")
      .def("optimize_in_place", optimize, nb::arg("target"),
           nb::arg("optimize_layouts"));

  nb::class_<CompileOptions>(module, "CompileOptions")
      .def(
          "__init__",
          [](CompileOptions *self, std::vector<std::string> targets,
             bool optimizeLayouts, nb::bytes ptxas, std::string rocm,
             int64_t tokens, std::string card, std::string policy,
             std::string recipe, std::string chip,
             std::vector<std::string> filters, int64_t precisionTokens) {
            new (self) CompileOptions{std::move(targets),
                                      optimizeLayouts,
                                      {ptxas.c_str(), ptxas.size()},
                                      std::move(rocm),
                                      tokens,
                                      std::move(card),
                                      std::move(policy),
                                      std::move(recipe),
                                      std::move(chip),
                                      std::move(filters),
                                      precisionTokens};
          },
          nb::arg("targets"), nb::arg("optimize_layouts"), nb::arg("ptxas"),
          nb::arg("rocm"), nb::arg("tokens"), nb::arg("card"),
          nb::arg("policy"), nb::arg("recipe"), nb::arg("chip"),
          nb::arg("filters"), nb::arg("precision_tokens"),
          nb::sig(
              "def __init__(self, targets: "
              "collections.abc.Sequence[str], optimize_layouts: bool, "
              "ptxas: bytes, rocm: str, tokens: int, card: str, policy: str, "
              "recipe: str, chip: str, filters: "
              "collections.abc.Sequence[str], precision_tokens: int) "
              "-> None"));
  module.def("compile", compile, nb::arg("module"), nb::arg("folder"),
             nb::arg("options"),
             nb::sig("def compile(module: Module, folder: bytes, options: "
                     "CompileOptions) -> tuple[str, str]"),
             "Writes artifacts; returns the report as text and as JSON.");
  module.def("emit", emit, nb::arg("module"), nb::arg("stage"),
             nb::arg("options"));
  module.def("targets", getTargets, "Known chips and what they are.");
  module.def("version", [] { return toString(fp8moeCompilerVersion()); });
  module.attr("DEFAULT_TOKENS") = fp8moeCompileOptionsGet().tokens;
}

NB_MODULE(_mlir, module) {
  // Python does not free at its exit what caches, threads and tracebacks hold.
  nb::set_leak_warnings(false);
  module.doc() = "The compiler's part of fp8moe; use fp8moe.ir and "
                 "fp8moe.ops.";
  bindTypes(module);
  bindAttributes(module);
  bindOperations(module);
  bindModules(module);
  bindTools(module);
}
