#!/usr/bin/env bash
# The main job on one page: a run that is allowed, one that is refused, and the proof of both. `make run` calls it.
# State goes to a folder of its own, which is removed at the end.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

FOLDER=$(mktemp -d)
export TIPSTAFF_HOME="$FOLDER/home"
trap 'rm -rf "$FOLDER"' EXIT
readonly PROOF="$FOLDER/proof.json" EDITED="$FOLDER/edited.json" REFUSAL="$FOLDER/refusal.json"

# Spells a command as one would type it.
typed() {
    local word
    for word; do
        [[ $word =~ ^[A-Za-z0-9_./:=@-]+$ ]] && printf '%s ' "$word" || printf "'%s' " "$word"
    done | sed "s|$FOLDER/||g; s| $||"
}

# Shows a command, runs it, and insists on its exit code: a tour that shows something else than it says is a lie.
show() {
    local expected=$1 code=0
    shift
    printf '\n$ %s\n' "$(typed "$@")"
    "$@" 2>&1 | sed "s|$FOLDER/||g" || code=${PIPESTATUS[0]}
    [[ $code == "$expected" ]] || { printf 'tour: expected exit code %s, got %s\n' "$expected" "$code" >&2; exit 1; }
    printf '[exit %s]\n' "$code"
}

echo "1. An agent wants to run a command. It may, in a sandbox: no network, no home folder, none of your variables."
show 0 tipstaff run --bundle "$PROOF" -- sh -c 'echo "hello from uid $(id -u), in $PWD, with $(ls -A | wc -l) files"'

echo
echo "2. It tries to look around. Inside, your secrets do not exist."
show 1 tipstaff run --quiet -- cat /etc/shadow

echo
echo "3. Under a policy of your own, what is not allowed never runs. The answer says why."
show 126 tipstaff run --policy examples/policy.yaml --as agent:coder --bundle "$REFUSAL" -- curl https://elsewhere.example

echo
echo "4. Every run left a receipt, every refusal a signed refusal. Anybody can check them, offline."
show 0 tipstaff verify "$PROOF" "$REFUSAL"

echo
echo "5. Somebody edits the receipt: the command's exit code was 0, now it says 1."
sed 's/"exitCode": *0/"exitCode":1/' "$PROOF" >"$EDITED"
show 1 tipstaff verify "$EDITED"

echo
echo "6. What happened so far:"
show 0 tipstaff history

echo
echo "Next: docs/quickstart.md, or: tipstaff run --help"
