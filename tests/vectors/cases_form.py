"""Vectors that checks 0 to 15 refuse: reading, signatures, the chain, and what no hash covers."""

from tests.vectors.changes import (
    ANOTHER,
    RAN,
    SECRETS,
    STANDS,
    TRUE_IDENTITY,
    add_signature,
    change,
    crlf,
    cut,
    fork,
    sign_as_plane,
    skip_a_number,
    start_elsewhere,
    stray_runner_signature,
    text_of,
    trailing_bits,
    without_countersignature,
)
from tests.vectors.story import (
    ALLOWED,
    BEFORE,
    CLAIMED,
    COMPLETED,
    CONTRACT,
    CREATED,
    DIFF_HASH,
    EXECUTED,
    FAILED,
    LOG_HASH,
    LOST,
    ORG,
    RUNNER,
    SECRET,
    STRANGER,
    Run,
    Vector,
    at,
)

YEAR_ZERO = "0000-01-01T00:00:00.000Z"

INVALID_FORM = [
    # 0 and 1: reading
    Vector("empty", "Nothing at all.", "", (0,)),
    Vector("not-json", "A bundle that breaks off.", text_of(Run())[:-200], (0,)),
    Vector("not-evidence", "JSON, but nothing that can be verified.", {"hello": "world"}, (0,)),
    Vector(
        "duplicate-key",
        "A key that stands twice: readers would differ.",
        text_of(Run()).replace('"exitCode": 0', '"exitCode": 1, "exitCode": 0'),
        (0,),
    ),
    Vector("something-after", "Something follows the document.", text_of(Run()) + "{}", (0,)),
    Vector("no-task", "A contract without its task, well signed.", Run({"task": None}), (0,)),
    Vector("year-zero", "A contract of the year 0, which no clock shows.", Run({"issuedAt": YEAR_ZERO}), (0,)),
    Vector(
        "leap-day-of-1900",
        "A contract issued on a day that 1900 did not have.",
        Run({"issuedAt": "1900-02-29T00:00:00.000Z"}),
        (0,),
    ),
    Vector("streams-no-object", "Streams that are no object.", Run(receipt={"streams": 5}), (0,)),
    Vector(
        "stream-kept-nowhere",
        "A stream whose copy is named by no digest.",
        Run(receipt={"streams": {"stdout": {"bytes": 1, "sha256": ANOTHER, "kept": ["x"]}}}),
        (0,),
    ),
    Vector("enforcement-no-list", "Verdicts that are no list.", Run(receipt={"enforcement": 5}), (0,)),
    Vector("enforcement-numbers", "A verdict that is no object.", Run(receipt={"enforcement": [1]}), (0,)),
    Vector("usage-no-object", "A usage that is no object.", Run(receipt={"usage": "much"}), (0,)),
    Vector("changes-no-object", "A summary of changes that is no object.", Run(receipt={"changes": []}), (0,)),
    Vector("host-no-object", "Facts of the host that are no object.", Run(receipt={"host": "h"}), (0,)),
    Vector(
        "no-hash",
        "An integer that has no canonical form, and hence no hash.",
        Run(after=change("contract", "future", to=2**53)),
        (0, 2, 4, 8),
    ),
    Vector(
        "lone-surrogate",
        "Half of a character where an object must be.",
        text_of(Run()).replace('"budget": {', '"future": "\\ud800", "budget": {'),
        (0, 2, 4, 8),
    ),
    Vector(
        "event-without-field",
        "An event without a field that its type has.",
        Run(events=(*BEFORE, STANDS, {"type": "command.executed", "exitCode": 0}, COMPLETED)),
        (0,),
    ),
    Vector(
        "event-without-type",
        "An event that does not say what it is.",
        Run(events=(*BEFORE, STANDS, {"type": None}, EXECUTED, COMPLETED)),
        (0,),
    ),
    Vector(
        "bundle-version",
        "An unknown version of the bundle.",
        Run(after=change("version", to="warrant.bundle.v2")),
        (1,),
    ),
    Vector(
        "contract-version",
        "An unknown version of the contract, well signed.",
        Run({"version": "warrant.contract.v2"}),
        (1,),
    ),
    Vector(
        "manifest-version",
        "An unknown version of the manifest.",
        Run({"workspace": {**CONTRACT["workspace"], "version": "v2"}}, (*BEFORE, COMPLETED)),
        (1,),
    ),
    Vector(
        "receipt-version", "An unknown version of the receipt.", Run(receipt={"version": "warrant.receipt.v2"}), (1,)
    ),
    Vector(
        "event-version",
        "An unknown version of an event, which no hash covers.",
        Run(after=change("events", 4, "version", to="warrant.event.v2")),
        (1,),
    ),
    # 2 to 7: who signed what
    Vector(
        "contract-by-stranger",
        "The contract is signed by a stranger in the plane's name.",
        Run(after=sign_as_plane),
        (2,),
    ),
    Vector(
        "contract-altered",
        "The prompt was changed when all had signed.",
        Run(after=change("contract", "task", "prompt", to="rm -rf /")),
        (2, 4, 8),
    ),
    Vector(
        "other-issuer",
        "The contract names another key as its issuer's.",
        Run({"issuer": {"keyId": STRANGER.public.key_id, "role": "plane"}}),
        (2,),
    ),
    Vector("other-run", "A receipt for another run.", Run(receipt={"runId": "run_other"}), (3,)),
    Vector("other-contract", "A receipt for another contract.", Run(receipt={"contractHash": ANOTHER}), (4,)),
    Vector(
        "other-runner-key",
        "The receipt, and the claim, name another key than the one that signs.",
        Run(
            events=(CREATED, ALLOWED, {**CLAIMED, "runnerKeyId": STRANGER.public.key_id}, *RAN),
            receipt={"runner": TRUE_IDENTITY(keyId=STRANGER.public.key_id)},
        ),
        (5,),
    ),
    Vector("one-key", "One key signs for the plane and for the runner.", Run(plane=RUNNER), (5,), pin=("runner",)),
    Vector("other-pool", "A runner of another pool.", Run(receipt={"runner": TRUE_IDENTITY(pool="other")}), (6,)),
    Vector("receipt-by-stranger", "A stranger signs in the runner's name.", Run(runner_as=STRANGER), (7,)),
    Vector(
        "receipt-altered",
        "The cost was changed when all had signed.",
        Run(after=change("receipt", "costUsd", to=0)),
        (7, 14),
    ),
    Vector(
        "lost-but-signed",
        "A lost runner that signed all the same.",
        Run(events=(*BEFORE, STANDS, LOST), lost=True, after=stray_runner_signature),
        (7,),
    ),
    # 8 to 10: the chain
    Vector(
        "event-altered", "An exit code was changed.", Run(after=change("events", 4, "event", "exitCode", to=1)), (8,)
    ),
    Vector("fork", "An event was changed, and all that follow hashed anew.", Run(after=fork), (9,)),
    Vector("gap", "A number is left out, with hashes that fit.", Run(links=skip_a_number), (8,)),
    Vector("other-genesis", "The chain begins with another contract's hash.", Run(links=start_elsewhere), (8,)),
    Vector("cut", "The last events are gone.", Run(after=cut), (9, 10, 17, 18)),
    Vector(
        "head-behind", "The receipt names an earlier event as the last.", Run(receipt={"eventsHead": ANOTHER}), (9,)
    ),
    Vector("count", "The receipt counts one event more.", Run(receipt={"eventCount": 12}), (9,)),
    Vector(
        "status",
        "The run failed, the receipt says completed.",
        Run(events=(*BEFORE, STANDS, FAILED), receipt={"status": "completed"}),
        (10,),
    ),
    Vector("exit-code", "The receipt says another exit code than the event.", Run(receipt={"exitCode": 3}), (10,)),
    Vector(
        "lost-unsaid",
        "The last event says that the runner was lost, the receipt does not.",
        Run(events=(*BEFORE, STANDS, LOST)),
        (10,),
    ),
    Vector("no-ending", "The last event is no ending.", Run(events=(*BEFORE, STANDS, EXECUTED)), (10,)),
    Vector(
        "lost-for-another-reason",
        "A lost run whose last event gives another reason.",
        Run(events=(*BEFORE, STANDS, FAILED), lost=True),
        (10,),
    ),
    # 11 to 14: the receipt's own words
    Vector(
        "other-commit",
        "The run started from another commit.",
        Run(receipt={"workspaceIn": {"baseRef": "f00d", "manifestHash": STANDS["manifestHash"]}}),
        (11,),
    ),
    Vector(
        "other-manifest",
        "The run started from another manifest.",
        Run(receipt={"workspaceIn": {"baseRef": CONTRACT["workspace"]["baseRef"], "manifestHash": ANOTHER}}),
        (11,),
    ),
    Vector(
        "other-materialized",
        "Another manifest was materialized.",
        Run(events=(*BEFORE, {**STANDS, "manifestHash": ANOTHER}, EXECUTED, COMPLETED)),
        (11,),
    ),
    Vector(
        "secret-unmentioned",
        "A released secret is not in the receipt.",
        Run({"secrets": SECRETS}, (*BEFORE, SECRET, *RAN), receipt={"secretsReleased": []}),
        (12,),
    ),
    Vector(
        "secret-at-another-time",
        "A secret was released at another time.",
        Run({"secrets": SECRETS}, (*BEFORE, SECRET, *RAN), receipt={"secretsReleased": [{**SECRETS[0], "ts": at(1)}]}),
        (12,),
    ),
    Vector(
        "diff-from-nowhere",
        "A log passes for the diff.",
        Run(receipt={"workspaceOut": {"diffHash": LOG_HASH, "artifactHashes": [DIFF_HASH, LOG_HASH]}}),
        (13,),
    ),
    Vector("not-countersigned", "The plane did not countersign.", Run(after=without_countersignature), (14,)),
    Vector("countersigned-by-stranger", "A stranger countersigns in the plane's name.", Run(plane_as=STRANGER), (14,)),
    # 15: what no hash covers
    Vector("field-in-bundle", "A field in the bundle.", Run(after=change("comment", to="trust me")), (15,)),
    Vector(
        "field-in-event",
        "A field in an event's wrapper.",
        Run(after=change("events", 4, "comment", to="trust me")),
        (15,),
    ),
    Vector(
        "field-in-signature",
        "A field in a signature.",
        Run(after=change("receipt", "signatures", 0, "comment", to="trust me")),
        (7, 15),
    ),
    Vector(
        "field-in-keys",
        "A field among the keys.",
        Run(after=change("keys", "comment", to="trust me")),
        (2, 5, 7, 14, 15),
    ),
    Vector(
        "null-key",
        "An org key that is null instead of left out.",
        Run(after=change("keys", "orgPublicKeyPem", to=None)),
        (15,),
    ),
    Vector(
        "idle-org-key",
        "An org key that signs nothing.",
        Run(after=change("keys", "orgPublicKeyPem", to=ORG.public.pem)),
        (15,),
    ),
    Vector("org-without-key", "An org signature without its key.", Run(after=add_signature("contract", "org")), (15,)),
    Vector(
        "empty-key-id",
        "An org signature by nobody.",
        Run(
            after=change(
                "receipt",
                "signatures",
                "+",
                to={"keyId": "", "alg": "ed25519", "signer": "org", "sig": "A" * 86 + "=="},
            )
        ),
        (15,),
    ),
    Vector(
        "runner-signs-contract",
        "A runner's signature on the contract.",
        Run(after=add_signature("contract", "runner")),
        (15,),
    ),
    Vector("twice", "The plane's role signs twice.", Run(after=add_signature("receipt", "plane")), (15,)),
    Vector("trailing-bits", "Base64 that does not re-encode to itself.", Run(after=trailing_bits), (7, 15)),
    Vector("crlf", "The plane's key with other line ends.", Run(after=crlf), (15,)),
]
