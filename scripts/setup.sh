#!/usr/bin/env bash
# Makes .venv: `setup.sh core` for using Tipstaff, `setup.sh dev` for working on it.
#
# Idempotent and quick: .venv/stamp-NAME holds a digest of everything the environment was made from, and is written
# last, so that an interrupted setup is noticed and made anew. Every package is checked against a hashed lock.
# Installs no Python of its own; asks the distribution (apt-get) for what only it can give, and says so when it cannot.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly NAME="${1:-core}"
readonly STAMP=".venv/stamp-$NAME"
readonly UNFINISHED=".venv/unfinished"
readonly PLACE=".venv/place"
readonly INPUTS=(scripts/setup.sh pyproject.toml requirements/setup.lock "requirements/$NAME.lock")
export UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

digest() { cat -- "${INPUTS[@]}" | sha256sum; }
# The scripts in .venv/bin name the folder that they were made in: a .venv that was moved or copied is a broken one.
at_home() { [[ ! -e $PLACE || $(<"$PLACE") == "$(pwd -P)" ]]; }

whole() { [[ -x .venv/bin/python && ! -e $UNFINISHED ]] && at_home; }
up_to_date() { whole && [[ -x .venv/bin/tipstaff && -f $STAMP && $(<"$STAMP") == "$(digest)" ]]; }

# --- what the distribution gives -------------------------------------------------------------------------------------

as_root() {
    if ((EUID == 0)); then "$@"
    elif [[ -t 0 ]]; then sudo "$@"
    else sudo --non-interactive "$@"  # nobody is there to type a password
    fi
}

apt_install() {
    command -v apt-get >/dev/null && { ((EUID == 0)) || command -v sudo >/dev/null; } || return 1
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=60 install --no-install-recommends "$@")
    say "installing $* with apt-get"
    # The package lists of a fresh machine may be missing or old: fetch them only when they are the reason.
    as_root "${install[@]}" >/dev/null 2>&1 || { as_root apt-get -qq update && as_root "${install[@]}" >/dev/null; }
}

bubblewrap() {
    command -v bwrap >/dev/null || apt_install bubblewrap ||
        say "bubblewrap is missing and could not be installed: verify, keys and policy work without it, sandboxed runs will not; as root, run: apt-get install bubblewrap"
}

# What a sandbox can run: programs in a person's own folders are not there.
inside() { PATH=/usr/local/bin:/usr/bin:/bin command -v "$1" >/dev/null; }

version_control() {
    inside git || apt_install git ||
        say "git is missing and could not be installed: runs work without it, workspaces do not come back; as root, run: apt-get install git"
}

# The documents show `patch`, the tests of keys start a real ssh-agent, those of the filter read the kernel's headers,
# those of the network have real programs fetch something: they fail without, so say it here.
tools_of_development() {
    local missing=()
    command -v patch >/dev/null || missing+=(patch)
    command -v ssh-agent >/dev/null || missing+=(openssh-client)
    inside curl || missing+=(curl)
    inside node || missing+=(nodejs)
    inside pip || missing+=(python3-pip)
    [[ -e /usr/include/asm-generic/unistd.h ]] || missing+=(linux-libc-dev)
    ((${#missing[@]} == 0)) || apt_install "${missing[@]}" ||
        say "some tests will fail without ${missing[*]}; as root, run: apt-get install ${missing[*]}"
}

# --- Python ----------------------------------------------------------------------------------------------------------

recent() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if recent "$candidate"; then echo "$candidate"; return; fi
    done
    return 1
}

can_make_environments() { "$1" -I -c 'import ensurepip, venv' 2>/dev/null; }

make_environment() {
    local python package
    python=$(find_python) || { apt_install python3 python3-venv && python=$(find_python); } ||
        fail "Python 3.11 or newer is needed, and none of python3, python3.13, python3.12, python3.11 is; install one and run this again"
    package=$("$python" -I -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    can_make_environments "$python" || apt_install "$package" ||
        fail "$python cannot make virtual environments and $package could not be installed; as root, run: apt-get install $package"
    rm -rf .venv
    "$python" -I -m venv .venv || fail "$python -m venv .venv failed; its own message is above"
}

usable() { whole && recent .venv/bin/python && .venv/bin/python -I -m pip --version >/dev/null 2>&1; }

# --- packages --------------------------------------------------------------------------------------------------------

with_pip() { .venv/bin/python -I -m pip install --quiet "$@"; }
with_uv() { .venv/bin/uv pip install --quiet --compile-bytecode --python .venv/bin/python "$@"; }

# uv first: ten times faster, and its console script starts 8 ms sooner than pip's. But it does not read pip's
# settings: on a machine whose index is configured for pip alone, only pip can install.
with_either() { with_uv "$@" || { say "uv could not install (its message is above), so pip does"; with_pip "$@"; }; }

# One chain: `set -e` does not hold inside a function whose failure is tested. Without isolation at the end, because
# an isolated build would fetch a hatchling that no lock names.
install_packages() {
    with_pip --require-hashes -r requirements/setup.lock &&
        with_either --require-hashes -r "requirements/$NAME.lock" &&
        with_either --no-deps --no-build-isolation -e . && compiled
}

# Whoever forbids Python to write bytecode would else have every start compile everything: a second instead of a fifth.
compiled() { .venv/bin/python -I -m compileall -q src; }

# --- the walk --------------------------------------------------------------------------------------------------------

[[ $NAME == core || $NAME == dev ]] || fail "the environment is core or dev, not $NAME"
exec 9<requirements && flock 9  # two makes at once: the second waits, then finds nothing to do
bubblewrap
version_control
[[ $NAME == core ]] || tools_of_development
if up_to_date; then exit 0; fi
usable || make_environment
touch "$UNFINISHED"
pwd -P >"$PLACE"
install_packages || fail "the packages could not be installed; the message is above, and the next run starts afresh"
rm -f "$UNFINISHED"
digest >"$STAMP"
say "ready: .venv/bin/tipstaff"
