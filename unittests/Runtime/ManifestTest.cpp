//===- ManifestTest.cpp - Refusing artifacts that are not sound -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestArtifact.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using namespace fp8moe::runtime::test;

namespace {

/// Loads a manifest with one change and expects a refusal.
void refuse(const std::function<void(json &)> &change,
            const std::string &message,
            fp8moe_status status = FP8MOE_INVALID_ARTIFACT) {
  TestArtifact folder;
  folder.writeCpuKernels();
  json manifest = makeCpuManifest({makeTwiceProgram()});
  change(manifest);
  folder.writeManifest(manifest);
  LoadedArtifact artifact(folder.path(), "cpu");
  EXPECT_EQ(artifact.status, status) << artifact.error;
  EXPECT_EQ(artifact.get(), nullptr);
  expectContains(artifact.error, message);
}

/// Sets the entry at a JSON pointer.
std::function<void(json &)> set(const char *place, json value) {
  return [=](json &manifest) { manifest[json::json_pointer(place)] = value; };
}

/// Removes a key from the object at a JSON pointer.
std::function<void(json &)> remove(const char *place, const char *key) {
  return
      [=](json &manifest) { manifest[json::json_pointer(place)].erase(key); };
}

TEST(ManifestTest, Versions) {
  refuse(set("/schema", 2), "schema: found version 2", FP8MOE_UNSUPPORTED);
  refuse(set("/schema", "1"), "schema: expected an integer");
  refuse(set("/min_runtime", "99.0.0"),
         "the artifact needs the fp8moe runtime 99.0.0 or newer",
         FP8MOE_UNSUPPORTED);
  refuse(set("/min_runtime", "0.1"), "min_runtime: expected a version");
  for (const char *version :
       {"0.1.0x", "0.1.", "0. 1.0", "-1.0.0", "0.1.0.0", "99999999999.0.0", ""})
    refuse(set("/min_runtime", version), "min_runtime: expected a version");
}

TEST(ManifestTest, MissingKeys) {
  for (const char *key : {"schema", "min_runtime", "producer", "target",
                          "binaries", "programs", "decisions"})
    refuse(remove("", key), "the key '" + std::string(key) + "' is missing");
  for (const char *key : {"role", "name", "dtype", "shape", "strides", "align"})
    refuse(remove("/programs/0/buffers/0", key),
           "programs[0].buffers[0]: the key '" + std::string(key) + "'");
  for (const char *key : {"kernel", "grid", "block", "shared", "args"})
    refuse(remove("/programs/0/launches/0", key),
           "programs[0].launches[0]: the key '" + std::string(key) + "'");
  refuse(remove("/programs/0/values/0", "op"), "values[0]: the key 'op'");
}

TEST(ManifestTest, UnknownKeysAndWords) {
  refuse(set("/extra", 1), "top level: unknown key 'extra'");
  refuse(set("/programs/0/launches/0/priority", 1), "unknown key 'priority'");
  refuse(set("/target/kind", "tpu"), "target.kind: expected one of 'cpu'");
  refuse(set("/target/fp8", "ocp"), "target.fp8: expected one of 'fn', 'fnuz'");
  refuse(set("/programs/0/buffers/0/dtype", "F4"),
         "buffers[0].dtype: expected one of BOOL, U8");
  refuse(set("/programs/0/buffers/0/role", "inout"),
         "role: expected one of 'input', 'output', 'workspace'");
  refuse(set("/programs/0/values/0/op", "pow"),
         "programs[0].values[0].op: unknown op 'pow'");
}

TEST(ManifestTest, WrongTypes) {
  refuse(set("/programs", 5), "programs: expected an array, found 5");
  refuse(set("/programs/0", "twice"), "programs[0]: expected an object");
  refuse(set("/programs/0/name", ""), "programs[0].name: expected a name");
  refuse(set("/producer", 1), "producer: expected a string");
  refuse(set("/programs/0/launches/0/shared", 1.5), "expected an integer");
  refuse(set("/programs/0/launches/0/args/2", uint64_t(1) << 63),
         "expected an integer of 64 bits");
  refuse(set("/programs/0/launches/0/grid", {1, 1}), "expected three extents");
  refuse(set("/programs/0/launches/0/block", {1, 0, 1}),
         "block[1]: expected an integer from 1 to 1024");
  refuse(set("/programs/0/launches/0/block", {1024, 2, 1}),
         "expected at most 1024 threads");
  refuse(set("/programs/0/buffers/0/align", 12), "expected a power of two");
  refuse(set("/programs/0/buffers/0/shape/1", -3),
         "shape[1]: expected an integer from 0");
  refuse(set("/programs/0/buffers/0/strides", {1}),
         "strides: has 1 entries, but the shape has 2");
}

TEST(ManifestTest, References) {
  refuse(set("/programs/0/buffers/1/shape/0", {{"value", 1}}),
         "shape[0].value: expected the index of one of 1 earlier values");
  refuse(set("/programs/0/buffers/1/shape/0", {{"dim", {0, 0}}}),
         "only an input has entries that the caller binds");
  refuse(set("/programs/0/buffers/0/shape/1", {{"dim", {0, 0}}}),
         "shape[1].dim: expected [0, 1], this very entry");
  refuse(set("/programs/0/values/0/args", {0, 2}),
         "args[1]: expected the index of one of 2 dimensions");
  refuse(set("/programs/0/values/0/args", {2, 0}),
         "args[0]: expected the index of one of 2 buffers");
  refuse(set("/programs/0/values/0/args", {0}),
         "'dim' takes 2 arguments, found 1");
  refuse(set("/programs/0/values/0",
             {{"op", "add"}, {"args", {{{"value", 0}}, 1}}}),
         "args[0].value: expected the index of one of 0 earlier values");
  refuse(set("/programs/0/values/0/args", {1, 0}),
         "reads an entry of buffer 1 that is value 0, which is not an earlier");
  refuse(set("/programs/0/launches/0/args/0", {{"buffer", 2}}),
         "args[0].buffer: expected the index of one of 2 buffers");
  refuse(set("/programs/0/launches/0/args/0", {{"buffer", -1}}),
         "args[0].buffer: expected the index");
  refuse(set("/programs/0/requires",
             {{{"cond", {{"value", 1}}}, {"message", "no"}}}),
         "requires[0].cond.value: expected the index of one of 1");
  refuse(set("/programs/0/requires", {{{"cond", 1}}}),
         "requires[0]: the key 'message' is missing");
  refuse(set("/programs/0/buffers/1/name", "x"), "the name 'x' is taken");
  refuse(
      [](json &manifest) {
        manifest["programs"].push_back(makeTwiceProgram());
      },
      "programs[1]: the name is taken");
}

TEST(ManifestTest, Overwritten) {
  refuse(set("/programs/0/buffers/0/may_overwrite", 0),
         "buffers[0].may_overwrite: only outputs overwrite inputs");
  refuse(set("/programs/0/buffers/1/may_overwrite", 2),
         "may_overwrite: expected the index of one of 2 buffers");
  refuse(set("/programs/0/buffers/1/may_overwrite", 1),
         "may_overwrite: buffer 1 is no input");
  refuse(
      [](json &manifest) {
        json &buffers = manifest["programs"][0]["buffers"];
        buffers[1]["may_overwrite"] = 0;
        buffers[1]["dtype"] = "I32";
      },
      "may_overwrite: 'x' has another type or rank than 'y'");
  refuse(
      [](json &manifest) {
        json &buffers = manifest["programs"][0]["buffers"];
        buffers[1]["may_overwrite"] = 0;
        buffers.push_back(buffers[1]);
        buffers[2]["name"] = "z";
      },
      "buffers[2].may_overwrite: another output overwrites 'x', too");
}

TEST(ManifestTest, Binaries) {
  refuse(set("/binaries/0/file", "../kernels.so"),
         "binaries[0].file: expected the plain name of a file");
  refuse(set("/binaries/0/file", ".."), "expected the plain name of a file");
  refuse(set("/binaries/0/file", "/etc/passwd"),
         "expected the plain name of a file");
  refuse(set("/binaries/0/file", "absent.so"), "absent.so: No such file");
  refuse(set("/binaries/0/xxh3", "0123456789abcdef"),
         "does not have the checksum that manifest.json gives");
  refuse(set("/binaries/0/xxh3", "0123456789ABCDEF"),
         "expected 16 lower-case hex digits");
  refuse(set("/binaries/0/format", "ptx"),
         "a target of kind 'cpu' has no binaries of this format");
  refuse(set("/binaries", json::array()), "expected at least one binary");
  refuse(set("/programs/0/launches/0/kernel", "absent"),
         "kernels.so: has no kernel 'absent'");
}

TEST(ManifestTest, TargetMustFitTheDevice) {
  TestArtifact folder;
  folder.writeCpuKernels();
  folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  LoadedArtifact artifact(folder.path(), "cuda:0");
  EXPECT_EQ(artifact.status, FP8MOE_UNSUPPORTED);
  expectContains(artifact.error, "the artifact was compiled for cpu, which is "
                                 "not what device 'cuda:0' is; load it on "
                                 "'cpu'");
  for (const char *device :
       {"gpu", "cuda:", "cuda:x", "cpu:0", "cuda:99999", ""})
    EXPECT_EQ(LoadedArtifact(folder.path(), device).status,
              FP8MOE_INVALID_ARGUMENT)
        << device;
}

TEST(ManifestTest, DamagedText) {
  TestArtifact folder;
  folder.writeCpuKernels();
  folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  std::ifstream file(folder.path() + "/manifest.json");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  auto load = [&](const std::string &manifest) {
    folder.write("manifest.json", manifest);
    return LoadedArtifact(folder.path(), "cpu").error;
  };
  ASSERT_EQ(load(text), "");
  // Every truncated manifest is refused without a crash.
  for (size_t length = 0; length < text.size(); length += 13)
    EXPECT_NE(load(text.substr(0, length)), "") << length;
  expectContains(load(text.substr(0, 100)),
                 "manifest.json: parse error at line");
  expectContains(load(text + "x"), "parse error");
  expectContains(load("[]"), "top level: expected an object");
  expectContains(load(R"({"schema": 1, "schema": 1})"),
                 "the key \"schema\" appears twice");
  // Deep nesting must not overflow the stack.
  for (size_t depth : {100, 100000, 1000000}) {
    std::string opened(depth, '['), closed(depth, ']');
    for (const std::string &nested :
         {opened, opened + closed, "{\"schema\": " + opened + closed + "}"})
      expectContains(load(nested),
                     "arrays and objects are nested more than 64 deep");
  }
  expectContains(load("{\"schema\": \"\xff\"}"), "manifest.json: ");
}

TEST(ManifestTest, AnyByteMayBeWrong) {
  TestArtifact folder;
  folder.writeCpuKernels();
  folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  std::ifstream file(folder.path() + "/manifest.json");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // Loading works or fails with a message, but never crashes.
  for (size_t i = 0; i < text.size(); ++i)
    for (char byte : {'9', '"'}) {
      std::string damaged = text;
      damaged[i] = byte;
      folder.write("manifest.json", damaged);
      LoadedArtifact artifact(folder.path(), "none");
      if (artifact.status != FP8MOE_OK) {
        EXPECT_NE(artifact.error, "");
      }
    }
}

TEST(ManifestTest, FilesThatBlock) {
  TestArtifact folder;
  folder.writeCpuKernels();
  folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  for (const char *name : {"/kernels.so", "/manifest.json"}) {
    std::string path = folder.path() + name;
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    LoadedArtifact artifact(folder.path(), "cpu");
    EXPECT_EQ(artifact.status, FP8MOE_INVALID_ARTIFACT);
    expectContains(artifact.error, path + " is not a regular file");
  }
}

TEST(ManifestTest, MissingFolder) {
  LoadedArtifact artifact("/nonexistent/artifact", "cpu");
  EXPECT_EQ(artifact.status, FP8MOE_NOT_FOUND);
  expectContains(artifact.error, "cannot open /nonexistent/artifact/manifest."
                                 "json: No such file or directory");
  EXPECT_EQ(fp8moe_artifact_load(nullptr, "cpu", nullptr),
            FP8MOE_INVALID_ARGUMENT);
}

std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One file is given in memory, another is missing.
TEST(ManifestTest, FilesInMemory) {
  std::string manifest, kernels;
  {
    TestArtifact folder;
    folder.writeCpuKernels();
    folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
    manifest = readAll(folder.path() + "/manifest.json");
    kernels = readAll(folder.path() + "/kernels.so");
  }
  fp8moe_file files[] = {{"kernels.so", kernels.data(), kernels.size()},
                         {"manifest.json", manifest.data(), manifest.size()}};
  fp8moe_artifact *artifact = nullptr;
  ASSERT_EQ(fp8moe_artifact_load_files(files, 2, "cpu", &artifact), FP8MOE_OK)
      << fp8moe_last_error();
  EXPECT_STREQ(fp8moe_artifact_binary(artifact), "kernels.so");
  EXPECT_STREQ(fp8moe_program_name(fp8moe_artifact_program(artifact, 0)),
               "twice");
  fp8moe_artifact_unload(artifact);

  EXPECT_EQ(fp8moe_artifact_load_files(files, 1, "cpu", &artifact),
            FP8MOE_NOT_FOUND);
  EXPECT_EQ(artifact, nullptr);
  expectContains(fp8moe_last_error(), "there is no file 'manifest.json' among "
                                      "the 1 of the artifact");
  files[0].bytes -= 1;
  EXPECT_EQ(fp8moe_artifact_load_files(files, 2, "cpu", &artifact),
            FP8MOE_INVALID_ARTIFACT);
  expectContains(fp8moe_last_error(), "kernels.so does not have the checksum");
  files[0].data = nullptr;
  EXPECT_EQ(fp8moe_artifact_load_files(files, 2, "cpu", &artifact),
            FP8MOE_INVALID_ARGUMENT);
  EXPECT_EQ(fp8moe_artifact_load_files(nullptr, 0, "cpu", &artifact),
            FP8MOE_INVALID_ARGUMENT);
}

TEST(ManifestTest, OutputThatMayOverwrite) {
  json program = makeTwiceProgram();
  json &buffers = program["buffers"];
  buffers[1]["shape"] = buffers[0]["shape"] = {4, 3};
  buffers[1]["strides"] = buffers[0]["strides"] = {3, 1};
  TestArtifact folder;
  folder.writeCpuKernels();
  folder.writeManifest(makeCpuManifest({program}));
  LoadedArtifact separate(folder.path(), "none");
  EXPECT_EQ(fp8moe_program_output_may_overwrite(separate.program(), 0), -1);
  buffers[1]["may_overwrite"] = 0;
  folder.writeManifest(makeCpuManifest({program}));
  LoadedArtifact artifact(folder.path(), "none");
  ASSERT_EQ(artifact.status, FP8MOE_OK) << artifact.error;
  EXPECT_EQ(fp8moe_program_output_may_overwrite(artifact.program(), 0), 0);
  EXPECT_EQ(fp8moe_program_output_may_overwrite(artifact.program(), 1), -1);
  expectContains(fp8moe_last_error(), "there is no output 1");
}

TEST(ManifestTest, BrokenSharedLibrary) {
  TestArtifact folder;
  folder.write("kernels.so", "not ELF");
  folder.writeManifest(makeCpuManifest({makeTwiceProgram()}));
  LoadedArtifact artifact(folder.path(), "cpu");
  EXPECT_EQ(artifact.status, FP8MOE_UNSUPPORTED);
  expectContains(artifact.error, "cannot load kernels.so: ");
}

} // namespace
