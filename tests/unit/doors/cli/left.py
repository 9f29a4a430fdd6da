"""A home with one run that an honest runner carried out: its changes are in the chain, its contents among the blobs."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.unit.plane.embedded import COMPLETED, KNOWS, REQUEST, RUNNER, executed, follow, materialized, receipt
from tests.unit.policy.conftest import open_policy
from tests.unit.workspace.bringing import Tree, ran
from tipstaff.home import Home
from tipstaff.local.opening import opened
from tipstaff.model.changes import to_event

Json = dict[str, Any]
POLICY: Final = open_policy(files={"readable": ["/**"], "workspaces": ["/**"], "in_place": ["/**"]})


def leave(  # noqa: PLR0913 - what a run can leave
    home: Path,
    workspace: Path | None,
    was: Tree,
    becomes: Tree,
    *,
    diff: bytes = b"",
    flags: Json | None = None,
    summary: Json | None = None,
    files: Json | None = None,
    extra: Sequence[Json] = (),
    contents: bytes | None = None,
    disclosure: str | None = None,
) -> str:
    """Leave a run; `flags` are set on every change, `extra` events are added as they are. Gives its id."""
    changes = ran(was, becomes, **(flags or {})).changes
    blob = contents if contents is not None else b"".join(becomes[one.name].content for one in changes if one.kept)
    with opened(Home(home), POLICY, owned=True) as (plane, store, _):
        token = plane.enroll(RUNNER.public.pem, "default")["runnerToken"]
        request = {**REQUEST, "files": {"workspace": str(workspace) if workspace else None, **(files or {})}}
        request |= {"disclosure": disclosure} if disclosure else {}
        run_id = getattr(plane.submit(request), "run_id", None)
        assert isinstance(run_id, str)
        claim = plane.claim({"runnerToken": token, "pool": "default", "knows": KNOWS})
        now = time.time_ns() // 1_000_000
        plane.append(claim["claimToken"], follow(claim, [materialized(claim)], now), release=True)
        said: list[Json] = [executed()]
        said += [{"type": "file.changed", **to_event(change)} for change in changes]
        said += extra
        kept = [("diff", diff), ("bundle", blob)]
        said += [
            {"type": "artifact.created", "kind": kind, "hash": store.blobs.put(data)} for kind, data in kept if data
        ]
        events = follow(claim, [*said, COMPLETED], now)
        signed = receipt(claim, now, changes=summary or {"files": len(changes)})
        plane.complete(claim["claimToken"], signed, events)
    return run_id
