"""Vectors without a problem, and those where something could not be checked."""

from tests.vectors.changes import (
    ANOTHER,
    ARTIFACTS,
    CONSENTED,
    RAN,
    SECRETS,
    STANDS,
    TRUE_IDENTITY,
    change,
)
from tests.vectors.story import (
    ALLOWED,
    ASKED,
    BEFORE,
    BLOCKED,
    BORIS,
    CANCELLED,
    CLAIMED,
    CLAIMED_2,
    COMPLETED,
    CREATED,
    EXECUTED,
    FAILED,
    LOG_HASH,
    LOST,
    MODEL,
    ONLINE,
    ORG,
    REACHED_API,
    REQUESTED,
    REQUEUED,
    RESULTS,
    RUNNER,
    RUNNER_2,
    RUNNER_2_ID,
    SECRET,
    TREE,
    UNFIT,
    Run,
    Vector,
    altered,
    at,
    granted,
    granted_without_key,
    journal,
    journal_with,
    known,
    materialized,
    older_journal,
    refusal,
    refusal_with,
)
from tipstaff.model.execution import python_hash, shell_hash

NULLS = {**TREE, "bundleHash": None, "untrackedFiles": None, "deniedPatterns": None, "deniedPaths": None}

VALID = [
    Vector("argv", "A command with its arguments, completed, with a diff and a log.", Run()),
    Vector(
        "shell",
        "A shell script.",
        Run(
            {"task": {"prompt": "echo hi"}, "execution": {"kind": "shell", "script": "echo hi"}},
            (*BEFORE, STANDS, {**EXECUTED, "argvHash": shell_hash("echo hi")}, COMPLETED),
        ),
    ),
    Vector(
        "python",
        "A Python program with an argument.",
        Run(
            {"execution": {"kind": "python", "source": "print(1)", "args": ["a"]}},
            (*BEFORE, STANDS, {**EXECUTED, "argvHash": python_hash("print(1)", ("a",))}, COMPLETED),
        ),
    ),
    Vector(
        "agent",
        "An agent run that called a model, twice.",
        Run(
            {"agent": {"kind": "codex"}, "execution": {"kind": "agent", "agent": {"kind": "codex"}, "prompt": "fix"}},
            (*BEFORE, STANDS, MODEL, MODEL, EXECUTED, COMPLETED),
        ),
    ),
    Vector(
        "failed", "The command failed.", Run(events=(*BEFORE, STANDS, {**EXECUTED, "exitCode": 1}, *RESULTS, FAILED))
    ),
    Vector("cancelled", "Somebody stopped the run.", Run(events=(*BEFORE, STANDS, CANCELLED))),
    Vector(
        "cancelled-by-a-slow-clock",
        "The runner, whose clock is behind the plane's, stopped the run.",
        Run(events=(*BEFORE, STANDS, CANCELLED), times={3: 50, 4: 60}),
    ),
    Vector("lost", "The runner was lost: the plane alone signs.", Run(events=(*BEFORE, STANDS, LOST), lost=True)),
    Vector(
        "lost-with-runner-key",
        "The runner was lost, and the bundle carries its key all the same.",
        Run(
            events=(*BEFORE, STANDS, EXECUTED, LOST),
            lost=True,
            after=change("keys", "runnerPublicKeyPem", to=RUNNER.public.pem),
        ),
    ),
    Vector("approved-with-key", "Approved with a signature whose key travels along.", Run(events=CONSENTED)),
    Vector(
        "approved-by-known-key",
        "Approved with a key that is known, as is the plane's.",
        Run(events=CONSENTED),
        pin=(),
        known=(known("plane", "plane"), known("approver", "approver")),
    ),
    Vector(
        "approved-without-key",
        "Approved with a signature whose key does not travel along: the plane alone vouches.",
        Run(events=(CREATED, ASKED, REQUESTED, altered(granted(), publicKeyPem=None), CLAIMED, *RAN)),
    ),
    Vector(
        "approved-without-key-by-known-key",
        "Approved with a signature whose key does not travel along, and is known.",
        Run(events=(CREATED, ASKED, REQUESTED, granted_without_key, CLAIMED, *RAN)),
        pin=(),
        known=(known("plane", "plane"), known("approver", "approver")),
    ),
    Vector(
        "approved-unsigned",
        "Approved without any signature, as in the older form of the protocol.",
        Run(
            {"approvedBy": [BORIS]},
            (CREATED, ASKED, REQUESTED, {"type": "consent.granted", "actor": BORIS}, CLAIMED, *RAN),
        ),
    ),
    Vector(
        "requeued",
        "A first runner lost its lease before the command ran, a second one took over; its clock is behind.",
        Run(
            events=(CREATED, ALLOWED, CLAIMED, STANDS, REQUEUED, CLAIMED_2, *RAN),
            times={6: 20, 7: 30, 8: 40},
            runner=RUNNER_2,
            runner_id=RUNNER_2_ID,
        ),
    ),
    Vector("secret", "A secret of the contract was released.", Run({"secrets": SECRETS}, (*BEFORE, SECRET, *RAN))),
    Vector(
        "network",
        "One host was reached three times, another one was blocked.",
        Run(
            {"network": {"defaultDeny": True, "allowHosts": ["example.com"]}},
            (*BEFORE, STANDS, ONLINE, BLOCKED, ONLINE, {**ONLINE, "port": 443}, EXECUTED, COMPLETED),
        ),
    ),
    Vector(
        "tree",
        "A workspace that is not a git repository.",
        Run({"workspace": TREE}, (*BEFORE, materialized({"workspace": TREE}), EXECUTED, COMPLETED)),
    ),
    Vector(
        "null-fields",
        "What may be missing is there as null.",
        Run(
            {"workspace": NULLS},
            (*BEFORE, materialized({"workspace": NULLS}), EXECUTED, COMPLETED),
            receipt={"runner": TRUE_IDENTITY(isolation=None)},
        ),
    ),
    Vector(
        "minimum-tier",
        "A stronger tier than the contract demands.",
        Run({"minimumTier": "bwrap"}, receipt={"runner": TRUE_IDENTITY(isolation="gvisor")}),
    ),
    Vector(
        "unknown-fields",
        "A newer writer's fields, wherever a hash covers them.",
        Run(
            {"future": {"x": [1, 2.5, None, True, "é\U0001f600"]}, "budget": {"future": 1e21}},
            (*BEFORE, STANDS, {**EXECUTED, "spawnedArgvHash": ANOTHER}, {**COMPLETED, "\U0001f600": 1, "\ufb33": 2}),
            receipt={"usage": {"wallMs": 12}, "runner": TRUE_IDENTITY(future=True)},
        ),
    ),
    Vector("org", "Signed by an org's key too, which is pinned.", Run(org=ORG), pin=("plane", "org")),
    Vector(
        "org-known",
        "Signed by an org's key too; both keys are known.",
        Run(org=ORG),
        pin=(),
        known=(known("plane", "plane"), known("org", "org")),
    ),
    Vector("artifacts", "The artifacts are given, and are those of the receipt.", Run(), artifacts=ARTIFACTS),
    Vector(
        "rotated",
        "The plane's key was valid then; it ended, and was revoked, later.",
        Run(),
        pin=(),
        known=(known("plane", "plane", notBefore=at(0), notAfter=at(3_600_000), revokedAt=at(7_200_000)),),
    ),
    Vector("claimed-at-expiry", "Claimed in the last millisecond.", Run({"expiresAt": at(120)})),
    Vector(
        "hosts-by-suffix-and-rule",
        "A host reached by the suffix of a rule that has no ports, and one at a port that its rule has.",
        Run(
            {
                "network": {"defaultDeny": True, "allowHosts": ["*.Example.com", "example.com"]},
                "egress": {"rules": [{"host": "*.Example.com"}, {"host": "example.com", "ports": [443]}]},
            },
            (*BEFORE, STANDS, REACHED_API, {**ONLINE, "port": 443}, EXECUTED, COMPLETED),
        ),
    ),
    Vector(
        "host-with-port",
        "A host was reached, and the event names its port too.",
        Run(
            {"network": {"defaultDeny": True, "allowHosts": ["example.com"]}},
            (*BEFORE, STANDS, {**ONLINE, "host": "example.com:443"}, EXECUTED, COMPLETED),
        ),
    ),
    Vector(
        "open-network",
        "The contract denies no host.",
        Run({"network": {"defaultDeny": False, "allowHosts": []}}, (*BEFORE, STANDS, ONLINE, EXECUTED, COMPLETED)),
    ),
    Vector(
        "unfit-host",
        "The runner could not isolate as the contract demands, and ran nothing.",
        Run({"minimumTier": "gvisor"}, (*BEFORE, STANDS, UNFIT)),
    ),
    Vector("exit-code", "The receipt says how the command ended.", Run(receipt={"exitCode": 0, "ending": "exited"})),
    Vector("checkpoints", "The plane signed twice on the way for what it had seen.", Run(seen=(4, 9))),
    Vector("refusal", "A denial, signed by the plane.", refusal()),
    Vector("refusal-with-more", "A denial with a signed list that is no chain.", refusal_with(events=[1], entries=[2])),
    Vector("journal", "A journal with three entries.", journal()),
    Vector("journal-with-more", "A newer writer's field in an entry, under its hash.", journal_with(future=True)),
    Vector("journal-head", "The signed head of a journal, by itself.", journal()["head"]),
    Vector("journal-older", "A journal whose head has no version, as older ones.", older_journal()),
    Vector("journal-head-older", "A head without a version, by itself.", older_journal()["head"]),
    Vector(
        "receipt-with-a-heads-fields",
        "A receipt may have any more fields: as a receipt, not as a journal's head.",
        Run(receipt={"seq": 0, "hash": ANOTHER, "ts": at(9000)}),
    ),
    Vector("leap-day", "Issued on the 29th of February of a leap year.", Run({"issuedAt": "2024-02-29T23:59:59.999Z"})),
    Vector(
        "told-in-full",
        "Streams, verdicts, usage, changes and host, as our writers tell them.",
        Run(
            receipt={
                "streams": {
                    "stdout": {"bytes": 5, "sha256": LOG_HASH, "truncated": False, "kept": LOG_HASH},
                    "stderr": {"bytes": 0, "sha256": "", "truncated": False},
                },
                "enforcement": [{"clause": "network", "verdict": "enforced", "by": ""}],
                "usage": {"wallMs": 12, "cpuMs": 3, "peakMemoryBytes": 1024},
                "changes": {"files": 1, "bytes": 3},
                "host": {"kernel": "6.1"},
                "executionStartedAt": at(150),
            }
        ),
    ),
]

UNPROVEN = [
    Vector("no-key", "The same as valid/argv.json, but nobody said which keys to trust.", Run(), (27,), pin=()),
    Vector("runner-pinned", "Only the runner's key is pinned: the plane is the root.", Run(), (27,), pin=("runner",)),
    Vector(
        "known-in-another-role",
        "The plane's key is known, as an approver's.",
        Run(),
        (27,),
        pin=(),
        known=(known("plane", "approver"),),
    ),
    Vector(
        "pinned-beats-known",
        "Another key is pinned: known ones are not asked.",
        Run(),
        (27,),
        pin=("stranger",),
        known=(known("plane", "plane"),),
    ),
    Vector("org-unknown", "The plane's key is pinned, but not that of the org, which signed too.", Run(org=ORG), (27,)),
    Vector(
        "event-type",
        "An event of a type that this version does not know.",
        Run(events=(*BEFORE, STANDS, {"type": "moon.landed"}, EXECUTED, COMPLETED)),
        (23,),
    ),
    Vector(
        "many-event-types",
        "More such events than are listed one by one.",
        Run(events=(*BEFORE, *[{"type": "moon.landed"}] * 30, COMPLETED)),
        (23,),
    ),
    Vector(
        "tier",
        "A tier whose strength this version does not know.",
        Run({"minimumTier": "bwrap"}, receipt={"runner": TRUE_IDENTITY(isolation="enclave")}),
        (21,),
    ),
    Vector("refusal", "A denial by a key that nobody named.", refusal(), (27,), pin=("runner",)),
    Vector("journal", "A journal by a key that nobody named.", journal(), (27,), pin=()),
]
