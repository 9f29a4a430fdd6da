"""`tipstaff bundle`: print the proof of a run, to hand to somebody who checks it with `tipstaff verify`.

For a run that was carried out it is the bundle: contract, events, receipt and public keys. For one that was refused it
is the signed refusal. A file is written whole or not at all.

Example:
  tipstaff bundle last -o run.bundle.json
  tipstaff bundle run_1a2b3c4d | tipstaff verify -
"""

import argparse
from typing import Any, Final

from tipstaff.doors.cli.desk import Desk, add_run, find, is_refused_request, opened
from tipstaff.doors.cli.output import complain, emit_json
from tipstaff.doors.cli.run.proof import ProofFile
from tipstaff.errors import NotFoundError

Json = dict[str, Any]

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to FILE instead of stdout")


def run(args: argparse.Namespace) -> int:
    """Print or write it."""
    with opened(args) as plane, ProofFile(args.output, "--output") as file:
        name = find(plane, args.run)
        document = proof_of(plane, name)
        file.keep(document)
    if args.output is None:
        emit_json(document)
    elif args.json:
        emit_json({"id": name, "file": args.output})
    else:
        complain(f"tipstaff: {args.output} is the proof of {name}; check it with: tipstaff verify {args.output}")
    return 0


def proof_of(plane: Desk, name: str) -> Json:
    """Give what proves how a run, or a request, ended."""
    if is_refused_request(name):
        return plane.refusal(name)
    try:
        return plane.bundle(name)
    except NotFoundError:  # it has none, or there is no such run, which the next question tells
        told = plane.run(name)
    if "refusal" in told:
        refusal: Json = told["refusal"]
        return refusal
    raise NotFoundError(f"run {name} has not ended: it is {told['status']}", hint="wait for it, then ask again")
