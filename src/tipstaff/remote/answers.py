"""What an answer of a plane means that is no success: one sentence of our errors that says what to do.

What stands between us and the plane may answer anything: what does not parse is left out, never guessed at.
"""

from typing import Any, Final, NoReturn

import httpx2

from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.evidence.reading import read_object
from tipstaff.remote.address import WHERE_TOKENS_GO

Json = dict[str, Any]
MOST_ERROR_BYTES: Final = 64 * 2**10
LONGEST_SAID: Final = 2000  # characters of a plane's own words that a message holds
LONGEST_WAIT_SECONDS: Final = 20.0  # that a plane may ask us for before we try again by ourselves
LONGEST_AFTER: Final = 7  # digits
UNAVAILABLE: Final = 503
BUSY: Final = (429, UNAVAILABLE)


class UnreachableError(PlaneError):
    """A plane that does not answer; whether it heard us is not known."""

    def __init__(self, url: str, why: str, *, heard: bool = False) -> None:
        advice = "see whether it was taken: tipstaff history" if heard else "does it run, and is the address right?"
        super().__init__(f"the plane {url} cannot be reached: {why}", status=UNAVAILABLE, reasons=(advice,))
        self.code = "unreachable"


class DeniedError(PlaneError):
    """What the plane does not let its caller do; `said` is its whole answer."""

    def __init__(self, message: str, said: Json, reasons: tuple[str, ...]) -> None:
        super().__init__(message, status=403, code=_cut(said.get("code")), reasons=reasons)
        self.said = said


class BusyPlaneError(PlaneError):
    """A plane that wants to be asked later."""

    def __init__(self, url: str, words: str, after: str, status: int) -> None:
        wait = float(after) if after.isascii() and after.isdecimal() and len(after) < LONGEST_AFTER else 1.0
        said = f"the plane {url} is asked too often" if status != UNAVAILABLE else f"the plane {url} is not ready"
        super().__init__(
            f"{said}: {words}" if words else said, status=status, code="busy", reasons=(f"try again in {wait:g} s",)
        )
        self.wait_seconds = min(wait, LONGEST_WAIT_SECONDS)


def refuse_failed(url: str, answer: httpx2.Response) -> None:
    """Raise what an answer means, unless it is a success."""
    if answer.is_redirect:
        raise PlaneError(
            f"the plane {url} points to another address, which is not followed",
            status=answer.status_code,
            reasons=("name the plane's own address",),
        )
    if not answer.is_success:
        refuse(url, answer)


def refuse(url: str, answer: httpx2.Response) -> NoReturn:
    """Raise what an answer means that is no success."""
    status, said = answer.status_code, _said(answer)
    reasons = tuple(map(_cut, _texts(said.get("reasons")) + _texts(said.get("issues"))))
    words, code = _cut(said.get("error")), _cut(said.get("code"))
    match status:
        case 401:
            raise PlaneError(f"the plane {url} does not know the token", status=401, reasons=(WHERE_TOKENS_GO,))
        case 403:
            raise DeniedError(words or "the token does not permit this", said, reasons or _advice(code))
        case 404:
            raise NotFoundError(words or f"the plane {url} has no such thing")
        case 400 | 422:
            raise InputError(words or f"the plane {url} cannot read the request", hint="; ".join(reasons))
        case 429 | 503:
            raise BusyPlaneError(url, words, answer.headers.get("Retry-After", ""), status)
    if status > UNAVAILABLE or status in {500, 501, 502}:
        named = _cut(answer.headers.get("X-Request-Id", ""))
        why = (f"its log says more, under {named}" if named else "its log says more",)
        raise PlaneError(f"the plane {url} failed: {words or status}", status=status, code=code, reasons=why)
    raise PlaneError(words or f"the plane {url} answers {status}", status=status, code=code, reasons=reasons)


def _advice(code: str) -> tuple[str, ...]:
    return ("ask whoever runs the plane for another role",) if code == "forbidden" else ()


def _said(answer: httpx2.Response) -> Json:
    """Read what a plane says about its refusal; whatever stands in between may say anything."""
    data = bytearray()
    for chunk in answer.iter_raw():
        data += chunk
        if len(data) > MOST_ERROR_BYTES:
            return {}
    try:
        return read_object(bytes(data), {})
    except InputError:
        return {}


def _texts(value: object) -> list[str]:
    """Take a list of sentences; a plane may also give objects with a message in them."""
    items = value if isinstance(value, list) else []
    spelled = [item.get("message") if isinstance(item, dict) else item for item in items]
    return [item for item in spelled if isinstance(item, str)]


def _cut(value: object) -> str:
    return value[:LONGEST_SAID] if isinstance(value, str) else ""


def cause_of(error: Exception) -> str:
    """Say why a connection failed, in the system's words where there are any."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and (cause.strerror or getattr(cause, "verify_message", "")):
            return str(getattr(cause, "verify_message", "") or cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return _WORDS.get(type(error).__name__, type(error).__name__)


_WORDS: Final = {
    "ConnectTimeout": "it does not answer in time",
    "ReadTimeout": "it does not answer in time",
    "WriteTimeout": "it takes nothing more",
    "RemoteProtocolError": "the connection broke off",
    "ReadError": "the connection broke off",
    "WriteError": "the connection broke off",
}
