"""What stops an attempt: the sentence for the client, the record and the user, and HTTP's number for it.

`RefusalError` is the gate saying no, by the contract or because bytes from the client do not parse.
`UpstreamError` is the other side's fault: the attempt was allowed, and could not be carried out.
"""

from tipstaff.errors import TipstaffError


class RefusalError(TipstaffError):
    """The gate says no; `advice` is what would allow it, `alert` is TLS's number for it.

    `midway` says that the attempt had been allowed, and went on until a bound was met.
    """

    def __init__(
        self, reason: str, *, status: int = 403, advice: str = "", alert: int = 49, midway: bool = False
    ) -> None:
        super().__init__(reason)
        self.midway = midway
        self.status = status
        self.advice = advice
        self.alert = alert


class UpstreamError(TipstaffError):
    """The other side is down, slow, or not to be understood."""

    def __init__(self, reason: str, *, status: int = 502) -> None:
        super().__init__(reason)
        self.status = status


def malformed(reason: str, status: int = 400) -> RefusalError:
    """Refuse bytes that are no request."""
    return RefusalError(reason, status=status)
