"""Requests to a plane, and what its answers mean.

1. No redirect is followed: a token goes to the plane that was named, and nowhere else. 2. An answer is read up to a
bound, and JSON strictly. 3. What goes wrong is one sentence of our errors that says what to do; the token is in none of
them. 4. Only what can be asked twice without harm is asked again after a fault of the connection.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

import httpx2
import msgspec

from tipstaff.errors import InputError, StoreError
from tipstaff.evidence.reading import read_object
from tipstaff.remote.address import Address
from tipstaff.remote.answers import BUSY, BusyPlaneError, UnreachableError, cause_of, refuse, refuse_failed

Json = dict[str, Any]
Answer = TypeVar("Answer")
Content = bytes | Iterable[bytes]
MOST_JSON_BYTES: Final = 64 * 2**20
MOST_BUNDLE_BYTES: Final = 256 * 2**20  # also of what else lists all events of a run
MOST_COMMAS: Final = 8 * 2**20  # of JSON: a value of two bytes takes thirty times as many in memory
MOST_EVENT_BYTES: Final = 16 * 2**20
CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
SILENCE_SECONDS: Final = 35.0  # of a stream that should say something every ten
TRIES: Final = 3
PAUSE_SECONDS: Final = 0.2


class Wire:
    """The connections to one plane."""

    def __init__(self, address: Address) -> None:
        self.url = address.url
        headers = {"User-Agent": "tipstaff", "Accept-Encoding": "identity"}
        if address.token is not None:
            headers["Authorization"] = f"Bearer {address.token}"
        self._client = httpx2.Client(
            headers=headers,
            verify=_trusted(address.authority_file),
            trust_env=not address.is_local,
            follow_redirects=False,
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=20
            ),  # each run that is followed has one
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def get(self, path: str, **query: str | int | None) -> Json:
        """Ask for a JSON object."""
        return self._repeated(lambda: self._json("GET", path, params=_given(query)))

    def get_long(self, path: str) -> Json:
        """Ask for a JSON object that holds all events of a run."""
        return self._repeated(lambda: self._json("GET", path, MOST_BUNDLE_BYTES))

    def fetch(self, path: str, most: int) -> bytes:
        """Ask for bytes, of which there may be so many."""
        return self._repeated(lambda: self._bytes("GET", path, most))

    def has(self, path: str) -> bool:
        """Ask whether something is there; a plane that does not tell has it not."""

        def asked() -> bool:
            with self._answered("HEAD", path) as answer:
                if answer.status_code in {401, 403, *BUSY}:
                    refuse(self.url, answer)
                return answer.is_success

        return self._repeated(asked)

    def post(self, path: str, body: Json) -> Json:
        """Send a JSON object, once, and take the one that answers."""
        data = msgspec.json.encode(body)
        return self._json("POST", path, content=data, headers={"Content-Type": "application/json"})

    def send(self, path: str, size: int, content: Callable[[], Content]) -> Json:
        """Send bytes, which `content` gives anew for each try: the same bytes are kept once."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        return self._repeated(lambda: self._json("POST", path, content=content(), headers=headers))

    @contextmanager
    def listening(self, path: str, last: str, **query: str | int | None) -> Iterator[Iterator[httpx2.ServerSentEvent]]:
        """Open a stream of events, from behind the one that was `last`."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        timeout = httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        with self._answered("GET", path, params=_given(query), headers=headers, timeout=timeout) as answer:
            refuse_failed(self.url, answer)
            if "text/event-stream" not in answer.headers.get("Content-Type", ""):
                raise InputError(f"the plane {self.url} does not tell what a run prints as it goes on")
            yield iter(httpx2.EventSource(answer, MOST_EVENT_BYTES))

    def _repeated(self, act: Callable[[], Answer]) -> Answer:
        for number in range(1, TRIES):
            try:
                return act()
            except UnreachableError:
                time.sleep(PAUSE_SECONDS * number)
            except BusyPlaneError as error:
                time.sleep(error.wait_seconds)
        return act()

    def _json(self, method: str, path: str, most: int | None = None, **more: Any) -> Json:
        with self._answered(method, path, **more) as answer:
            refuse_failed(self.url, answer)
            data = self._read(answer, most or MOST_JSON_BYTES)
        if data.count(b",") > MOST_COMMAS:
            raise InputError(f"the plane {self.url} answers with more than {MOST_COMMAS} values")
        try:
            return read_object(data, {})
        except InputError as error:
            raise InputError(f"the plane {self.url} does not answer as a plane: {error.message}") from error

    def _bytes(self, method: str, path: str, most: int) -> bytes:
        with self._answered(method, path) as answer:
            refuse_failed(self.url, answer)
            return self._read(answer, most)

    @contextmanager
    def _answered(self, method: str, path: str, **more: Any) -> Iterator[httpx2.Response]:
        try:
            with self._client.stream(method, self.url + path, **more) as answer:
                yield answer
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise UnreachableError(self.url, cause_of(error)) from None
        except httpx2.RequestError as error:  # what stands in it may quote a header, so only its kind is told
            raise UnreachableError(self.url, cause_of(error), heard=method == "POST") from None
        except (httpx2.InvalidURL, httpx2.StreamError) as error:
            raise InputError(f"the plane {self.url} cannot be asked: {type(error).__name__}") from None

    def _read(self, answer: httpx2.Response, most: int) -> bytes:
        data = bytearray()
        for chunk in answer.iter_raw():
            data += chunk
            if len(data) > most:
                raise InputError(f"the plane {self.url} answers with more than {most} bytes")
        return bytes(data)


def _given(query: dict[str, str | int | None]) -> dict[str, str | int]:
    return {name: value for name, value in query.items() if value is not None}


def _trusted(authority_file: str | None) -> Any:
    """Give the certificates that vouch for the plane's: the system's, or those in a file."""
    if authority_file is None:
        return True
    import ssl  # noqa: PLC0415 - only a plane with an authority of its own needs it by name

    try:
        return ssl.create_default_context(cafile=authority_file)
    except (OSError, ssl.SSLError) as error:
        raise StoreError(
            f"{authority_file} holds no certificates that can be used: {error.strerror or 'it is no PEM file'}",
            hint="--ca names a file of PEM certificates",
        ) from None
