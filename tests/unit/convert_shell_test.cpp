// SPDX-License-Identifier: BSD-3-Clause
// What a shell makes of converted scripts: the words of the manifest, whatever is in them.
#include "tests/unit/convert_support.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

namespace dist_train {
namespace {

// A YAML text in double quotes, of characters that are UTF-8.
std::string yaml_text(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    char escaped[8];
    const auto byte = static_cast<unsigned char>(c);
    std::snprintf(escaped, sizeof escaped, byte < 0x20 || c == '"' || c == '\\' ? "\\x%02x" : "%c",
                  byte);
    out += escaped;
  }
  return out + "\"";
}

std::string random_text(std::mt19937& random) {
  static constexpr std::array<const char*, 30> kParts = {"'",
                                                         "\"",
                                                         "$(touch hacked)",
                                                         "`touch hacked`",
                                                         "$HOME",
                                                         "${RANK}",
                                                         "\n",
                                                         "\n#SBATCH -N9\n",
                                                         "\\",
                                                         " ",
                                                         "\t",
                                                         "*",
                                                         "~",
                                                         "!",
                                                         "#",
                                                         ";touch hacked;",
                                                         "|",
                                                         "&",
                                                         "<",
                                                         ">",
                                                         "\x01",
                                                         "\xc3\xa9",
                                                         "\xf0\x9f\x98\x80",
                                                         "a",
                                                         "-",
                                                         "=",
                                                         "--x",
                                                         "%s",
                                                         "\r",
                                                         "EOF"};
  std::string text;
  for (auto n = random() % 6; n > 0; --n)
    text += kParts[random() % kParts.size()];
  return text;
}

// The output of a script in an empty folder. srun is a function that drops its own options and runs
// the command, as one task would: what is asked here is what words the shells make.
std::string output_of(const std::string& script) {
  char name[] = "/tmp/convert_shell_XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  std::ofstream(folder / "job") << script;
  const auto command =
      "cd " + folder.string() +
      " && MASTER_ADDR=\"it's \\$(x)\" bash -c 'srun() { while [[ $1 == --* ]]; do "
      "shift; done; \"$@\"; }; . ./job' 2>&1";
  std::string output;
  std::array<char, 4096> buffer;
  FILE* pipe = popen(command.c_str(), "re");
  while (const auto size = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), size);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "hacked"));
  std::filesystem::remove_all(folder);
  return output;
}

TEST(ConvertShell, WordsArriveAsTheManifestHasThem) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 150; ++round) {
    // Every word is followed by a newline and a dot in the output.
    std::string command = "[printf, \"%s\\n.\"", wanted;
    const auto add = [&](const std::string& word, const std::string& value) {
      command += ", " + yaml_text(word);
      wanted += value + "\n.";
    };
    for (int i = 0; i < 4; ++i) {
      const auto text = random_text(random);
      std::string kubernetes; // its own escape: $( would be looked up, $$ is $
      for (char c : text)
        kubernetes += c == '$' ? "$$" : std::string(1, c);
      add(kubernetes, text);
    }
    if (round % 2)
      add("$(MASTER_ADDR)", "it's $(x)"); // through the task's own shell
    const auto label = random_text(random);
    const auto script =
        converted(pytorch_job("command: " + command + "], tty: " + yaml_text(label)));
    ASSERT_TRUE(script.starts_with("#!")) << script;
    EXPECT_EQ(script.find("\r\n"), script.npos) << "sbatch refuses that";
    EXPECT_EQ(output_of(script), wanted) << script;
  }
}

TEST(ConvertShell, VariablesArriveToo) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const auto value = random_text(random);
    std::string kubernetes;
    for (char c : value)
      kubernetes += c == '$' ? "$$" : std::string(1, c);
    const auto script =
        converted(pytorch_job("command: [printenv, a.b-c, UID], env: [{name: a.b-c, value: " +
                              yaml_text(kubernetes) + "}, {name: UID, value: '5'}]"));
    EXPECT_EQ(output_of(script), value + "\n5\n") << script;
  }
}

TEST(ConvertShell, NoJobWithoutItsSecret) {
  const auto script = converted(
      pytorch_job("command: [printenv, HOME], env: [{name: HOME, valueFrom: {secretKeyRef: {name: "
                  "\"x'; touch hacked; '\", key: k}}}]"));
  EXPECT_NE(output_of(script).find('/'), std::string::npos);
}

} // namespace
} // namespace dist_train
