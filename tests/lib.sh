# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Shared by the scripts of this folder: where things are, and how they speak.
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$tests")
build=${DIST_TRAIN_BUILD:-$top/build}
export DIST_TRAIN_BUILD=$build

# The comment at the head of a script is its help.
case ${1:-} in
  -h | --help) sed -n '3,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# need_clang: sets clang; where there is none the script ends as a skipped test does.
need_clang() {
  clang=$(command -v clang++-14 || command -v clang++) || { echo "skipped: no clang++ on this machine"; exit 77; }
}

# done_with STEP KEY: whether STEP was finished before with the same KEY.
done_with() { [ "$(cat "$build/setup/$1" 2>/dev/null)" = "$2" ]; }
finished() { mkdir -p "$build/setup"; printf '%s\n' "$2" >"$build/setup/$1"; }

# releases_of WORD: the releases of Slurm that --slurm=WORD names (24.11,26.05 or all), by spaces.
# 22.05 is this Debian's own, tests/cluster/release sets up the others.
releases_of() {
  local known='22.05 24.11 26.05' release
  [ "$1" != all ] || set -- "$known"
  for release in ${1//,/ }; do
    [[ " $known " == *" $release "* ]] || die "--slurm=$1: all, or some of ${known// /,}"
  done
  echo "${1//,/ }"
}
