"""What the gate itself says to a client. Pure.

The sentence stands in the body and in the status line too: most programs show only that of a failed CONNECT.
"""

from typing import Final

from tipstaff.egress.heads import spell
from tipstaff.egress.refusal import RefusalError, UpstreamError

ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
MAX_PHRASE: Final = 300
_AUTHENTICATE: Final = (b"Proxy-Authenticate", b'Basic realm="tipstaff"')
_UNAUTHENTICATED: Final = 407
_NOT_BY_POLICY: Final = frozenset((400, 405, 407, 408, 417, 431, 503, 505))


def reply(fault: RefusalError | UpstreamError, method: str) -> bytes:
    """Spell an answer that says why not, and what would help."""
    sentence = f"{_kind(fault)}: {fault.message}"
    advice = fault.advice if isinstance(fault, RefusalError) else ""
    text = f"{sentence}\n" + (f"to allow it: {advice}\n" if advice else "")
    body = text.encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", str(len(body)).encode()),
        (b"Connection", b"close"),
        *((_AUTHENTICATE,) if fault.status == _UNAUTHENTICATED else ()),
    ]
    head = spell(f"HTTP/1.1 {fault.status} {_phrase(sentence)}", headers)
    return head if method == "HEAD" else head + body


def _kind(fault: RefusalError | UpstreamError) -> str:
    if isinstance(fault, UpstreamError):
        return "upstream error"
    return "refused by the tipstaff gate" if fault.status in _NOT_BY_POLICY else "blocked by tipstaff egress policy"


def _phrase(sentence: str) -> str:
    """Keep what a status line can hold."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in sentence[:MAX_PHRASE])
