"""Verification of a file that somebody hands over: a bundle, a refusal, a journal or its head. Offline, and total.

Whatever the bytes are, the answer is a `Report`; only a file that cannot be opened is an error. The checks and their
numbers are in docs/evidence-format.md.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tipstaff.errors import InputError, NotFoundError
from tipstaff.evidence.bundle import BundleCheck
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.reading import MAX_BYTES, Sink, json_object, read_object
from tipstaff.evidence.records import Journal, check_head, check_refusal
from tipstaff.evidence.report import Findings, Kind, Report, printable
from tipstaff.evidence.trust import Trust
from tipstaff.keys import KnownKeys, PublicKey
from tipstaff.keys.files import load_public
from tipstaff.model.noun import VERSION_JOURNAL, VERSION_REFUSAL

Document = Mapping[str, Any] | bytes | str | Path
Key = PublicKey | str | Path
CHUNK_BYTES = 1024 * 1024
_JOURNAL_SHAPES = ({"entries", "head"}, {"seq", "hash", "signatures"})


def verify(
    document: Document,
    keys: Iterable[Key] = (),
    *,
    known: KnownKeys | None = None,
    artifacts: Mapping[str, bytes] | None = None,
) -> Report:
    """Check a document. `keys` are planes' keys that you trust: PEM text, or paths of PEM files."""
    trust = Trust([_public_key(key) for key in keys], known)
    findings = Findings()
    chain, journal = Chain(findings), Journal(findings)
    try:
        fields = _read(document, {"events": chain.add, "entries": journal.add})
    except InputError as error:
        findings = Findings()  # what was found before the reading broke off would only distract
        findings.add(0, error.message)
        return Report(kind="unknown", problems=findings.sorted())
    kind = _kind(fields)
    if kind == "bundle":
        return _verify_bundle(fields, chain, trust, findings, artifacts)
    if kind == "refusal":
        findings = Findings()  # a list in it that is called `events` is no chain
        check_refusal(_read(document, {}), trust, findings)
    elif kind == "journal" and "head" in fields:
        journal.check(fields, trust)
    elif kind == "journal":
        check_head(fields, trust, findings)
    else:
        findings.add(0, "this is no bundle, refusal, journal or journal head")
    return Report(kind=kind, problems=findings.sorted(), events=journal.count)


def _verify_bundle(
    fields: Mapping[str, Any], chain: Chain, trust: Trust, findings: Findings, artifacts: Mapping[str, bytes] | None
) -> Report:
    check = BundleCheck(fields, chain, trust, findings)
    check.run(artifacts)
    return Report(
        kind="bundle",
        problems=findings.sorted(),
        run_id=printable(check.receipt.run_id) if check.receipt else "",
        status=check.receipt.status if check.receipt else "",
        events=chain.count,
        plane_key=check.plane.key_id if check.plane else "",
        runner_key=check.runner.key_id if check.runner else "",
        notes=tuple(printable(note) for note in check.notes),
    )


def _kind(fields: Mapping[str, Any]) -> Kind:
    """Tell by the fields what this wants to be; a wrong version is then a problem, not another kind."""
    version = fields.get("version")
    if version == VERSION_REFUSAL or {"requestHash", "reasons"} <= fields.keys():
        return "refusal"
    if version == VERSION_JOURNAL or any(names <= fields.keys() for names in _JOURNAL_SHAPES):
        return "journal"
    if {"contract", "receipt"} & fields.keys():
        return "bundle"
    return "unknown"


def _read(document: Document, sinks: Mapping[str, Sink]) -> Mapping[str, Any]:
    if isinstance(document, Mapping):
        fields = json_object(document)
        for name, sink in sinks.items():
            items = fields.get(name)
            for item in items if type(items) is list else ():
                sink(item)
        return fields
    return read_object(document if isinstance(document, bytes) else _read_file(Path(document)), sinks)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return read_all(file)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise NotFoundError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_all(file: BinaryIO) -> bytes:
    """Read a file or a pipe, at most a little more than is allowed; asks for memory as the bytes come."""
    data = bytearray()
    while len(data) <= MAX_BYTES and (chunk := file.read(CHUNK_BYTES)):
        data += chunk
    return bytes(data)


def _public_key(key: Key) -> PublicKey:
    if isinstance(key, PublicKey):
        return key
    if isinstance(key, str) and key.lstrip().startswith(("-----BEGIN", "ssh-")):
        return PublicKey.parse(key)
    return load_public(Path(key))
