//===- Diagnostics.cpp - MLIR's diagnostics as Python exceptions ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IR.h"

using namespace fp8moe::python;

DiagnosticCollector::Entry
DiagnosticCollector::read(MlirDiagnostic diagnostic) {
  Entry entry;
  entry.severity = mlirDiagnosticGetSeverity(diagnostic);
  entry.message = print(mlirDiagnosticPrint, diagnostic);
  MlirLocation location = mlirDiagnosticGetLocation(diagnostic);
  entry.location = print(mlirLocationPrint, location);
  while (mlirLocationIsACallSite(location) || mlirLocationIsAName(location))
    location = mlirLocationIsAName(location)
                   ? mlirLocationNameGetChildLoc(location)
                   : mlirLocationCallSiteGetCallee(location);
  if (mlirLocationIsAFileLineColRange(location)) {
    entry.file = toString(
        mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(location)));
    entry.line = mlirLocationFileLineColRangeGetStartLine(location);
    entry.column = mlirLocationFileLineColRangeGetStartColumn(location);
  }
  for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(diagnostic); ++i)
    entry.notes.push_back(read(mlirDiagnosticGetNote(diagnostic, i)));
  return entry;
}

DiagnosticCollector::DiagnosticCollector(MlirContext context)
    : context(context) {
  handler = mlirContextAttachDiagnosticHandler(
      context,
      [](MlirDiagnostic diagnostic, void *userData) {
        auto *self = static_cast<DiagnosticCollector *>(userData);
        Entry entry = read(diagnostic);
        std::lock_guard lock(self->mutex);
        self->entries.push_back(std::move(entry));
        return mlirLogicalResultSuccess();
      },
      this, nullptr);
}

DiagnosticCollector::~DiagnosticCollector() {
  mlirContextDetachDiagnosticHandler(context, handler);
}

nb::object DiagnosticCollector::toPython(const Entry &entry) {
  static constexpr const char *severities[] = {"error", "warning", "note",
                                               "remark"};
  nb::list notes;
  for (const Entry &note : entry.notes)
    notes.append(toPython(note));
  return nb::module_::import_("fp8moe._diagnostics")
      .attr("Diagnostic")(severities[entry.severity], decode(entry.message),
                          decode(entry.location), decode(entry.file),
                          entry.line, entry.column, nb::tuple(notes));
}

void DiagnosticCollector::finish(bool succeeded, const char *failure) {
  std::lock_guard lock(mutex);
  nb::list list;
  for (const Entry &entry : entries)
    list.append(toPython(entry));
  entries.clear();
  nb::object diagnostics = nb::module_::import_("fp8moe._diagnostics");
  if (succeeded) {
    diagnostics.attr("show_warnings")(list);
    return;
  }
  nb::object error = diagnostics.attr("CompilerError")(list, failure);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}
