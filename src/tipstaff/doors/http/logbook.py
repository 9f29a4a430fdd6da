"""The log: one line of JSON for each request and for each fault, by the standard library's logging.

Says method, path template, status, milliseconds, who and which request; never a body, a query or a header. Whatever
looks like a token is blotted out, should one ever get into a message.
"""

import logging
import re
import sys
import traceback
from typing import Any, Final

import msgspec

from tipstaff.model.times import timestamp

LOGGER: Final = logging.getLogger("tipstaff.http")
_TOKEN: Final = re.compile(
    r"(?i:bearer +)[^\s\"\\]+"  # a header
    r"|\b[A-Za-z0-9_=-]{8,}\.[0-9a-f]{64}\b"  # a runner's, or a claim's
    r"|\b(?:tip|enr)_[A-Za-z0-9_-]{20,}"  # a principal's, or one to enrol with
)


class JsonLines(logging.Formatter):
    """Spells a record as one line of JSON, without tokens."""

    def format(self, record: logging.LogRecord) -> str:
        """Spell `record`."""
        said: dict[str, Any] = {"ts": timestamp(int(record.created * 1000)), "level": record.levelname.lower()}
        said |= record.msg if isinstance(record.msg, dict) else {"message": record.getMessage()}
        if record.exc_info:
            said["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return without_tokens(msgspec.json.encode(said, enc_hook=str).decode())


def without_tokens(text: str) -> str:
    """Blot out what looks like a token."""
    return _TOKEN.sub("[token]", text)


def to_stderr() -> None:
    """Write the log to stderr, uvicorn's own faults with it."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines())
    for name, level in (("tipstaff", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [lines]
        logger.setLevel(level)
        logger.propagate = False
