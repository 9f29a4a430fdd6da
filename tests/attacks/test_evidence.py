"""Attacks on evidence: a courier without keys, a runner, a plane, and whoever holds an old key, each against `verify`.

The courier's part is exhaustive: every value, every key and every list element of whole bundles is changed in turn,
and what must be found is a function of the place. Bundles are changed in place and restored, because copies cost more
than verifying.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.changes import rehash
from tests.vectors.story import ORG, PLANE, RUNNER, STRANGER, Run, journal, refusal
from tipstaff.evidence import Report, verify
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.keys import KnownKey, KnownKeys, PrivateKey

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
INDEX = json.loads((VECTORS / "index.json").read_text())
OURS = ("approved-with-key", "lost-with-runner-key", "org", "requeued")  # what the other implementation does not have
SUBJECTS = (*(name for name in INDEX["files"] if name.startswith("other/")), *(f"valid/{name}.json" for name in OURS))
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493

SIGNED = {
    ("contract", "plane"): 2,
    ("contract", "org"): 15,
    ("receipt", "runner"): 7,
    ("receipt", "plane"): 14,
}

Place = tuple[str | int, ...]


class Subject:
    """One valid bundle, and the keys that it is verified with."""

    def __init__(self, name: str) -> None:
        self.document: dict[str, Any] = json.loads((VECTORS / name).read_bytes())
        self.keys = [INDEX["keys"][key] for key in INDEX["files"][name]["pin"]]

    def verify(self) -> Report:
        """Verify the bundle as it is now."""
        return verify(self.document, self.keys)

    def at(self, place: Place) -> Any:
        """Look a value up."""
        value: Any = self.document
        for step in place:
            value = value[step]
        return value

    @contextmanager
    def holding(self, place: Place, value: Any) -> Iterator[None]:
        """Put another value into a place, for a while."""
        parent, key = self.at(place[:-1]), place[-1]
        before = parent[key]
        parent[key] = value
        yield
        parent[key] = before

    @property
    def lost(self) -> bool:
        """Say whether the runner was lost."""
        return bool(self.document["receipt"].get("ending") == "lost")


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request) -> Iterator[Subject]:
    """Every bundle in turn; valid before its tests, and after them."""
    it = Subject(request.param)
    before = json.dumps(it.document)
    assert it.verify().verdict == "valid"
    yield it
    assert json.dumps(it.document) == before
    assert it.verify().verdict == "valid"


def numbers(report: Report) -> set[int]:
    """The numbers of a report's problems."""
    return {problem.number for problem in report.problems}


def walk(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value inside a document with its place, the document itself first."""
    yield place, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from walk(item, (*place, key))


def wanted(subject: Subject, place: Place) -> set[int]:
    """Say which checks must find a change at this place, whatever the change is."""
    match place:
        case ("version",) | ("events", _, "version"):
            return {1}
        case ("contract" | "receipt" | "keys" | "events",):
            return {0}
        case ("contract" | "receipt" as part, "signatures", *inside):
            return {SIGNED[part, subject.document[part]["signatures"][inside[0]]["signer"]]} if inside else {15}
        case ("contract", *_):
            return {2, 4, 8}
        case ("receipt", *_):
            return {14} if subject.lost else {7, 14}
    assert place[0] == "events"
    return {8}


def key_was_noticed(name: str, found: set[int]) -> bool:
    """Say whether a change to a key was found: as another key, or as another spelling of it."""
    users = {"planePublicKeyPem": {2, 14}, "runnerPublicKeyPem": {5}, "orgPublicKeyPem": {15}}[name]
    return bool({0, 15} & found) or users <= found


def unnoticed(subject: Subject, place: Place, report: Report) -> list[str]:
    """Give what is wrong with the answer to one change: nothing, if it was found as it should be."""
    found = numbers(report)
    fine = (
        key_was_noticed(str(place[1]), found)
        if place[0] == "keys" and len(place) > 1
        else wanted(subject, place) <= found
    )
    return [] if fine and report.verdict == "invalid" else [f"{place}: {report.verdict} {sorted(found)}"]


def others(value: Any) -> list[Any]:
    """Other values in the place of a leaf."""
    if isinstance(value, bool):
        return [not value, None, int(value), str(value)]
    if isinstance(value, int | float):
        return [value + 1, -value - 1, value + 0.25, str(value), None, [value]]
    if isinstance(value, str):
        flipped = [
            value[:i] + chr(ord(value[i]) ^ 1) + value[i + 1 :] for i in {0, len(value) // 2, len(value) - 1} if value
        ]
        other_case = [value.swapcase()] if value.swapcase() != value else []
        return [*flipped, *other_case, f"{value}x", f"{value}\n", None, [value]]
    return [0, "", "x", [], {}]


# A courier: no keys, every place


def test_no_value_can_be_changed(subject):
    """Another value in any place makes a bundle invalid, by the checks that are about that place."""
    leaves = [(place, value) for place, value in walk(subject.document) if not isinstance(value, dict | list)]
    missed = []
    for place, value in leaves:
        for other in others(value):
            if other == value and type(other) is type(value):
                continue
            with subject.holding(place, other):
                report = subject.verify()
            missed += unnoticed(subject, place, report)

    assert len(leaves) > 50
    assert missed == []


def test_no_character_of_a_signature_or_key_can_be_changed(subject):
    """Signatures and keys are covered by no hash: each of their characters counts all the same."""
    places = [
        place for place, _ in walk(subject.document) if place[-1:] == ("sig",) or (place[:1] == ("keys",) and place[1:])
    ]
    missed = []
    for place in places:
        text = subject.at(place)
        for index in range(len(text)):
            with subject.holding(place, text[:index] + ("A" if text[index] != "A" else "B") + text[index + 1 :]):
                report = subject.verify()
            # An approval's own signature is inside an event, which is hashed.
            missed += unnoticed(subject, place, report)

    assert missed == []


def test_no_key_can_be_taken_out(subject):
    """A bundle lacks nothing: any member that is taken out of any object is missed."""
    missed = []
    for place, value in walk(subject.document):
        for key in list(value) if isinstance(value, dict) else ():
            if subject.lost and (*place, key) == ("keys", "runnerPublicKeyPem"):
                continue  # a lost run's bundle may do without it, and says nothing else then
            with (
                subject.holding((*place, key), None)
                if not place
                else subject.holding(place, {k: v for k, v in value.items() if k != key})
            ):
                report = (
                    subject.verify()
                    if place
                    else verify({k: v for k, v in subject.document.items() if k != key}, subject.keys)
                )
            missed += unnoticed_removal(subject, (*place, key), report)

    assert missed == []


def unnoticed_removal(subject: Subject, place: Place, report: Report) -> list[str]:
    """As `unnoticed`; an event without a member of its wrapper is no event at all."""
    if place[0] == "events" and len(place) == 3:
        return [] if {8} <= numbers(report) and report.verdict == "invalid" else [f"{place}: {report}"]
    return unnoticed(subject, place, report)


def test_no_key_can_be_added(subject):
    """An unknown member is refused in every object: by 15 where no hash covers it, by the hash where one does."""
    missed = []
    for place, value in [*walk(subject.document)]:
        if isinstance(value, dict):
            for addition in ("", "comment", "__proto__", "\x1b[2J"):
                value[addition] = None
                report = subject.verify()
                del value[addition]
                unhashed = place in ((), ("keys",)) or place[-2:-1] in (("signatures",), ("events",))
                needed = {15} if unhashed else wanted(subject, (*place, addition))
                if not needed <= numbers(report) or report.verdict != "invalid":
                    missed.append((place, addition, report.verdict, numbers(report)))

    assert missed == []


def test_no_list_can_be_changed(subject):
    """In every list, no element can be dropped, doubled or exchanged with another; only signatures have no order."""
    missed = []
    for place, value in [*walk(subject.document)]:
        for variant, what in rearranged(value) if isinstance(value, list) else ():
            with subject.holding(place, variant):
                report = subject.verify()
            if place[-1] == "signatures" and what == "exchanged":
                if report.verdict != "valid":
                    missed.append((place, what, report.verdict))
            elif report.verdict != "invalid" or not rearrangement(subject, place, what) & numbers(report):
                missed.append((place, what, numbers(report)))

    assert missed == []


def rearranged(value: list[Any]) -> Iterator[tuple[list[Any], str]]:
    """Every list that differs by one element, or by two that changed places."""
    for i in range(len(value)):
        yield value[:i] + value[i + 1 :], "dropped"
        yield [*value[: i + 1], *value[i:]], "doubled"
        yield [*value, value[i]], "doubled"
        for j in range(i):
            if value[i] != value[j]:
                yield [*value[:j], value[i], *value[j + 1 : i], value[j], *value[i + 1 :]], "exchanged"


def rearrangement(subject: Subject, place: Place, what: str) -> set[int]:
    """Say which checks may be the one to find a changed list."""
    if place[-1] == "signatures":
        return {15} if what == "doubled" else {2, 7, 14, 15}
    if place == ("events",):
        return {8} if what != "dropped" else {8, 9}
    return wanted(subject, place)


def test_no_tail_can_be_cut_off(subject):
    """The events cannot be shortened to any length: the receipt names the last one, and how many there are."""
    links = subject.document["events"]
    for length in range(len(links)):
        with subject.holding(("events",), links[:length]):
            report = subject.verify()
        assert report.verdict == "invalid"
        assert {9, 10} <= numbers(report)


def test_the_chain_cannot_be_forked(subject):
    """An event changed at any position, with all later hashes made to fit, is not what was signed."""
    links = subject.document["events"]
    head = subject.document["receipt"]["eventsHead"]
    for first in range(len(links)):
        forked = [*links[:first], {**links[first], "event": {**links[first]["event"], "x": 1}}, *links[first + 1 :]]
        rehash(forked, first)
        with subject.holding(("events",), forked):
            assert 9 in numbers(subject.verify())
            with subject.holding(("receipt", "eventsHead"), forked[-1]["hash"]):
                assert 14 in numbers(subject.verify())
    assert subject.document["receipt"]["eventsHead"] == head


def test_signatures_have_one_spelling(subject):
    """Base64 with other trailing bits, spaces, alphabet or padding is refused in every signature."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for part in ("contract", "receipt"):
        for index, signature in enumerate(subject.document[part]["signatures"]):
            sig, place = signature["sig"], (part, "signatures", index, "sig")
            last = digits.index(sig[-3])
            spellings = [f"{sig[:-3]}{digits[last ^ bits]}==" for bits in range(1, 16)]
            spellings += [f"{sig}\n", f" {sig}", f"{sig[:40]}\n{sig[40:]}", f"{sig[:40]} {sig[40:]}", f"{sig}\x00"]
            spellings += [sig.rstrip("="), sig[:-1], f"{sig}=", f"{sig}====", base64.b64decode(sig).hex(), "", sig * 2]
            spellings += [other for other in (sig.replace("+", "-").replace("/", "_"),) if other != sig]
            for spelling in spellings:
                with subject.holding(place, spelling):
                    found = numbers(subject.verify())
                assert {15} | wanted(subject, place) <= found


def test_keys_have_one_spelling(subject):
    """A key in the bundle is spelled in one way: no other line ends, spaces, wrapping, comments or formats."""
    for name, pem in subject.document["keys"].items():
        begin, body, end, _ = pem.split("\n")
        spellings = [pem.replace("\n", "\r\n"), pem.rstrip("\n"), f"{pem}\n", f"\n{pem}", f" {pem}", f"{pem} "]
        spellings += [
            f"comment\n{pem}",
            f"{pem}comment\n",
            f"{pem}{pem}",
            f"{begin}\n{body[:30]}\n{body[30:]}\n{end}\n",
        ]
        spellings += [f"{begin}\n{body} \n{end}\n", f"{begin}\nX-Note: 1\n\n{body}\n{end}\n", body, ""]
        for spelling in spellings:
            with subject.holding(("keys", name), spelling):
                report = subject.verify()
            assert 15 in numbers(report)
            assert report.verdict == "invalid"


@pytest.mark.parametrize("pem", [ORG.public.pem, PLANE.public.pem, "", "junk", None, 0])
@pytest.mark.parametrize("name", [name for name in SUBJECTS if name != "valid/org.json"])
def test_no_org_key_can_be_added(name, pem):
    """An org key that signs nothing is refused, also the plane's own, an empty one and null."""
    subject = Subject(name)
    subject.document["keys"]["orgPublicKeyPem"] = pem
    report = subject.verify()

    assert report.verdict == "invalid"
    assert {0, 15} & numbers(report)


def test_the_spelling_of_json_is_not_a_value(subject):
    """Spaces, the order of keys, and escapes in strings may differ: they are no values, and hashes do not see them."""
    compact = json.dumps(subject.document, separators=(",", ":"), ensure_ascii=True)
    wide = json.dumps(subject.document, indent="\t\r\n ", sort_keys=True, ensure_ascii=False)
    escaped = compact.replace('"version"', '"\\u0076ersion"').replace("run.created", "\\u0072un.created")

    for text in (compact, wide, escaped, f"\n {compact} \n"):
        assert verify(text.encode(), subject.keys).verdict == "valid"


def test_a_count_is_an_integer(subject):
    """A number that other programs take for the same, such as 13.0 or true, is not accepted for a count."""
    for place in (("receipt", "eventCount"), ("events", 1, "seq")):
        for value in (float(subject.at(place)), True):
            with subject.holding(place, value):
                assert subject.verify().verdict == "invalid"


def test_bundles_cannot_be_mixed():
    """No mixture of the parts of two valid bundles by one plane and one runner is valid."""
    one, other = (Subject(f"other/{name}.bundle.json") for name in ("command-shell", "mock-with-secret"))
    parts = ("contract", "receipt", "events")
    for mask in range(1, 7):
        mixed = {**one.document, **{part: other.document[part] for i, part in enumerate(parts) if mask >> i & 1}}
        assert verify(mixed, one.keys).verdict == "invalid"
    assert verify({**one.document, "keys": other.document["keys"]}, one.keys).verdict == "valid"


def test_a_signature_counts_where_it_was_made():
    """A signature of the plane on one document is none on another, whatever it is presented as."""
    bundle = Run().bundle()
    contract_sig, receipt_sig = bundle["contract"]["signatures"][0], bundle["receipt"]["signatures"][1]
    swapped = Run().bundle()
    swapped["contract"]["signatures"], swapped["receipt"]["signatures"][1] = [receipt_sig], contract_sig
    head, denial = journal()["head"], refusal()

    assert numbers(verify(swapped, [PLANE.public])) == {2, 14}
    assert numbers(verify({**head, "signatures": denial["signatures"]}, [PLANE.public])) == {30}
    assert numbers(verify({**denial, "signatures": head["signatures"]}, [PLANE.public])) == {28}
    assert verify({**bundle["contract"], "seq": 0, "hash": "0" * 64}, [PLANE.public]).verdict == "invalid"
    for document in (bundle, head, denial):
        assert verify(document, [PLANE.public]).verdict == "valid"


def test_signatures_are_not_malleable(subject):
    """Adding the group's order to a signature's second half, which some verifiers take, is refused."""
    for part in ("contract", "receipt"):
        for index, signature in enumerate(subject.document[part]["signatures"]):
            raw = base64.b64decode(signature["sig"])
            scalar = int.from_bytes(raw[32:], "little") + GROUP_ORDER
            place = (part, "signatures", index, "sig")
            with subject.holding(place, base64.b64encode(raw[:32] + scalar.to_bytes(32, "little")).decode()):
                assert wanted(subject, place) <= numbers(subject.verify())


def test_what_an_org_adds_can_be_taken_off():
    """An org's signature goes with its key or not at all; without both, the plane's word remains as it was."""
    bundle = Run(org=ORG).bundle()
    assert verify(bundle, [PLANE.public, ORG.public]).verdict == "valid"

    del bundle["keys"]["orgPublicKeyPem"]
    assert numbers(verify(bundle, [PLANE.public])) == {15}
    del bundle["contract"]["signatures"][1]
    assert verify(bundle, [PLANE.public]).verdict == "valid"


def test_an_org_signature_cannot_be_added():
    """A courier who adds an org of its own, key and signature, does not get a valid verdict."""
    bundle = Run().bundle()
    bundle["contract"] = signed(bundle["contract"], STRANGER, "org")
    bundle["keys"]["orgPublicKeyPem"] = STRANGER.public.pem

    assert verify(bundle, [PLANE.public]).verdict == "unproven"


# A runner with its own key, and a plane without the runner's


def resigned(document: dict[str, Any], key: PrivateKey, role: Any, index: int) -> dict[str, Any]:
    """The document with one signature made anew."""
    fresh = signed({**document, "signatures": []}, key, role)["signatures"]
    return {**document, "signatures": [*document["signatures"][:index], *fresh, *document["signatures"][index + 1 :]]}


@pytest.mark.parametrize(("key", "role", "index", "left"), [(RUNNER, "runner", 0, 14), (PLANE, "plane", 1, 7)])
def test_one_side_cannot_rewrite_the_receipt(key, role, index, left):
    """Who holds one of the two keys can change any field of the receipt, but the other's signature is missing."""
    bundle = Run().bundle()
    for name, value in bundle["receipt"].items():
        if name != "signatures":
            changed = {**bundle["receipt"], name: [value]}
            report = verify({**bundle, "receipt": resigned(changed, key, role, index)}, [PLANE.public])
            assert left in numbers(report)
            assert report.verdict == "invalid"
    same = {**bundle, "receipt": resigned(bundle["receipt"], key, role, index)}
    assert verify(same, [PLANE.public]).verdict == "valid"


def test_a_runner_cannot_be_its_own_plane():
    """A bundle that is consistent under another plane's key is not valid for whoever trusts the true one."""
    forged = Run(plane=STRANGER).bundle()
    borrowed = {**forged, "keys": {**forged["keys"], "planePublicKeyPem": PLANE.public.pem}}

    assert verify(forged, [PLANE.public]).verdict == "unproven"
    assert (
        verify(forged, known=KnownKeys((KnownKey(public_key_pem=PLANE.public.pem, role="plane"),))).verdict
        == "unproven"
    )
    assert verify(borrowed, [PLANE.public]).verdict == "invalid"
    assert verify(forged, [STRANGER.public]).verdict == "valid"


def test_a_lost_run_is_the_planes_word_only():
    """Nobody but the plane can turn a receipt into that of a lost run."""
    bundle = Run().bundle()
    receipt = {**bundle["receipt"], "status": "failed", "ending": "lost"}
    by_runner = {**bundle, "receipt": signed({**receipt, "signatures": []}, RUNNER, "runner")}
    in_its_name = {**bundle, "receipt": signed({**receipt, "signatures": []}, RUNNER, "plane")}

    assert 14 in numbers(verify(by_runner, [PLANE.public]))
    assert 14 in numbers(verify(in_its_name, [PLANE.public]))


def test_a_stolen_key_cannot_be_dated_back_over_its_plane():
    """A revoked runner's key is refused by the plane's own time of the claim, though its events be dated before."""
    early = Run(times=dict.fromkeys(range(3, 11), 10), receipt={"endedAt": "2026-03-01T00:00:00.010Z"}).bundle()
    plane = KnownKey(public_key_pem=PLANE.public.pem, role="plane")

    def known(revoked_at: str) -> KnownKeys:
        return KnownKeys((plane, KnownKey(public_key_pem=RUNNER.public.pem, role="runner", revoked_at=revoked_at)))

    assert numbers(verify(early, known=known("2026-03-01T00:00:00.100Z"))) == {27}
    assert verify(early, known=known("2026-03-01T00:00:00.121Z")).verdict == "valid"


def test_approvals_cannot_be_moved():
    """An approval is over one contract's hash: another run's chain cannot use it."""
    approved = Subject("valid/approved-with-key.json").document
    consent = next(link["event"] for link in approved["events"] if link["event"]["type"] == "consent.granted")
    events = [link["event"] for link in approved["events"]]
    again = Run(events=tuple(events)).bundle()
    elsewhere = Run({"task": {"prompt": "other"}}, tuple(events)).bundle()

    assert consent["approval"]["contractHash"] == payload_digest(approved["contract"])
    assert verify(again, [PLANE.public]).verdict == "valid"
    assert numbers(verify(elsewhere, [PLANE.public])) == {24}
