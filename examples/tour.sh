#!/usr/bin/env bash
# The main job on one page: evidence that verifies, evidence that was edited, a request that is allowed, one that is not.
# `make run` calls it. State goes to a folder of its own, which is removed at the end.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TIPSTAFF_HOME=$(mktemp -d)
export TIPSTAFF_HOME
trap 'rm -rf "$TIPSTAFF_HOME"' EXIT
readonly BUNDLE=tests/vectors/other/command-shell.bundle.json EDITED="$TIPSTAFF_HOME/edited.json"

# Shows a command, runs it, and insists on its exit code: a tour that shows something else than it says is a lie.
show() {
    local expected=$1 code=0
    shift
    printf '\n$ %s\n' "${*//$TIPSTAFF_HOME/\$TIPSTAFF_HOME}"
    "$@" 2>&1 | sed "s|$TIPSTAFF_HOME|\$TIPSTAFF_HOME|g" || code=${PIPESTATUS[0]}
    [[ $code == "$expected" ]] || { printf 'tour: expected exit code %s, got %s\n' "$expected" "$code" >&2; exit 1; }
    printf '[exit %s]\n' "$code"
}

echo "1. Somebody hands you the bundle of a run. You know the key of the plane that signed it: is it true to it?"
show 0 tipstaff verify "$BUNDLE" --key tests/vectors/other/plane.pem

echo
echo "2. The same bundle, after somebody changed the command's exit code from 0 to 1."
sed 's/"exitCode": 0/"exitCode": 1/' "$BUNDLE" >"$EDITED"
show 1 tipstaff verify "$EDITED" --key tests/vectors/other/plane.pem

echo
echo "3. An agent asks to run its tests. May it, by examples/policy.yaml?"
show 0 tipstaff policy explain examples/policy.yaml examples/allowed.json

echo
echo "4. The same agent asks for a download from somewhere else. The answer names what would have to change."
show 1 tipstaff policy explain examples/policy.yaml examples/refused.json
