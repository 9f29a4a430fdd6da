"""Has the folder that a request names captured, and puts the manifest into the request."""

from pathlib import Path
from typing import Any

from tipstaff.doors.asking import Asked, capture_form
from tipstaff.local.embedded import Local
from tipstaff.workspace.capture.capturing import Wish
from tipstaff.workspace.capture.denied import DEFAULT_PATTERNS

Json = dict[str, Any]


def captured(local: Local, asked: Asked, request: Json) -> tuple[str, ...]:
    """Capture the request's workspace; gives what people have to be told about it."""
    wish = Wish(capture_form(asked) or "auto", (*DEFAULT_PATTERNS, *asked.deny))  # type: ignore[arg-type]  # one of FORMS
    found = local.workspaces.capture(Path(request["files"]["workspace"]), wish)
    request["workspace"] = found.manifest
    return found.notices
