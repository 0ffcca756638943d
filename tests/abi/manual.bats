#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The manual page libstep(3) against the library, its header, its sources and a compiler. LIBRARY is
# libstep.so; NM and CC are the build's, PC_FOLDER has its libstep.pc, SANITIZE its sanitizers.
bats_require_minimum_version 1.5.0

setup() {
  libstep=$BATS_TEST_DIRNAME/../../libstep
  page=$libstep/libstep.3
  header=$libstep/include/libstep/step.h
}

# The prototypes that the page and the header show, one a line.
of_page() {
  sed -nE '/^\.BI ".*step_[a-z_]+\(/{s/^\.BI "//;s/"$//;s/" ([a-z_]+) "/\1/g;p}' "$page" | sort -u
}

of_header() {
  tr -s '\n ' ' ' <"$header" | grep -oE 'STEP_API [^#;]+\);' | sed 's/^STEP_API //' | sort
}

@test "every exported function is in the page, with its prototype in the header" {
  diff <("$NM" -D --defined-only "$LIBRARY" | sed -n 's/.* T \(step_[a-z_]*\)@.*/\1/p' | sort) \
    <(of_page | grep -oE 'step_[a-z_]+\(' | tr -d '(' | sort)
  diff <(of_header | tr -d ' ' | sort) <(of_page | tr -d ' ' | sort)
}

@test "every error is in the page, with its number" {
  diff <(sed -nE 's/^  (STEP_ERR_[A-Z_]+) = ([0-9]+).*/\1 \2/p' "$header") \
    <(sed -nE 's/^\.BR (STEP_ERR_[A-Z_]+) " \(([0-9]+)\)"/\1 \2/p' "$page")
}

@test "every variable that the library reads is in the page" {
  local name missing=""
  for name in $(grep -ohE '"([A-Z]+_[A-Z_]+|RANK)"' "$libstep"/identity*.cpp | tr -d '"' | sort -u); do
    grep -qE "^\.BR? $name( |\$)" "$page" || missing+=" $name"
  done
  [ -n "$name" ]
  [ -z "$missing" ] || { echo "not in the page:$missing"; false; }
}

@test "the page is good roff" {
  command -v groff || skip "no groff"
  run -0 groff -man -ww -z "$page"
  [ -z "$output" ]
}

@test "the page's program compiles with the page's flags and runs alone and as two ranks" {
  sed -n '/^\.\\" example:/,/^\.EE/{/^\./d;s/\\e/\\/g;p}' "$page" >"$BATS_TEST_TMPDIR/program.c"
  local flags
  flags=$(PKG_CONFIG_PATH=$PC_FOLDER pkg-config --define-variable=libdir="$(dirname "$LIBRARY")" \
    --define-variable=includedir="$libstep/include" --cflags --libs libstep)
  # shellcheck disable=SC2086 # several words
  "$CC" -Wall -Wextra -Werror ${SANITIZE:+-fsanitize=$SANITIZE} -o "$BATS_TEST_TMPDIR/program" \
    "$BATS_TEST_TMPDIR/program.c" $flags
  local clean=(env -i LD_LIBRARY_PATH="$(dirname "$LIBRARY")")
  run -0 "${clean[@]}" "$BATS_TEST_TMPDIR/program"
  [[ $output == "rank 0 of 1 on "*": seed "[1-9]* ]]
  # As torchrun would start them; the run's name keeps it from meeting another.
  local pair=("${clean[@]}" TORCHELASTIC_RUN_ID="$BATS_TEST_TMPDIR" WORLD_SIZE=2
    LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500)
  "${pair[@]}" RANK=1 LOCAL_RANK=1 "$BATS_TEST_TMPDIR/program" >"$BATS_TEST_TMPDIR/one" 3>&- &
  run -0 "${pair[@]}" RANK=0 LOCAL_RANK=0 "$BATS_TEST_TMPDIR/program"
  wait $!
  [[ $output == "rank 0 of 2 on "*": seed "[1-9]* ]]
  [ "${output##* }" = "$(sed 's/.* //' "$BATS_TEST_TMPDIR/one")" ]
  # Outside of a step, but told that there is one.
  run -1 "${clean[@]}" RANK=2 WORLD_SIZE=2 "$BATS_TEST_TMPDIR/program"
  [[ $output == *"RANK='2' is not a number from 0 to 1"* ]]
}

@test "the page's Python program runs alone" {
  [ -z "$SANITIZE" ] || skip "Python does not bring the sanitizer"
  sed -n '/^\.SH PYTHON/,/^\.SH SEE/{/^\.EX/,/^\.EE/{/^\./d;p}}' "$page" >"$BATS_TEST_TMPDIR/program.py"
  run -0 env -i PYTHONPATH="$libstep/python" PYTHONDONTWRITEBYTECODE=1 \
    DIST_TRAIN_LIBSTEP="$LIBRARY" "$(command -v python3)" "$BATS_TEST_TMPDIR/program.py"
  [ "$output" = "rank 0 of 1: seed 4711" ]
}
