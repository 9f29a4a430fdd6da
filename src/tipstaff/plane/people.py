"""Who may ask: principals with a role each, and the tokens that prove them; and the tokens that runners enrol with.

A token is random and long, so a digest of it is as hard to guess as itself: that is all the store keeps. It is shown
once. A name belongs to one principal for ever, because contracts and approvals name it.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from tipstaff.errors import InputError, NotFoundError, PlaneError, SigningKeyError
from tipstaff.keys import PublicKey
from tipstaff.model.times import timestamp
from tipstaff.plane.authority import Authority
from tipstaff.plane.leases import Leases
from tipstaff.store.principals import Principal

Json = dict[str, Any]
TOKEN_BYTES: Final = 32
LONGEST_NAME: Final = 128
LONGEST_TOKEN: Final = 4096
SECOND_MS: Final = 1000
LONGEST_ENROLMENT_SECONDS: Final = 30 * 86_400
KINDS: Final = ("human", "service", "agent")
_READS: Final = frozenset({"runs:read", "policy:read"})
ROLES: Final[Mapping[str, frozenset[str]]] = {
    "admin": frozenset(
        {
            "runs:read", "runs:read-all", "runs:create", "runs:cancel", "runs:cancel-all", "runs:approve",
            "blobs:write", "blobs:read-all", "policy:read", "runners:read", "runners:manage", "principals:read",
            "principals:manage", "enroll-tokens:create", "export:read", "metrics:read",
        }
    ),
    "requester": _READS | {"runs:create", "runs:cancel", "blobs:write"},
    "approver": _READS | {"runs:read-all", "runs:approve"},
    "enroller": frozenset({"runners:read", "enroll-tokens:create"}),
    "auditor": _READS
    | {"runs:read-all", "blobs:read-all", "runners:read", "principals:read", "export:read", "metrics:read"},
}  # fmt: skip


class People:
    """The principals of one plane."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._store = authority.store

    def who(self, token: str | None) -> Principal | None:
        """Give the principal whose token this is."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        return self._store.principals.by_token(_digest(token))

    def issue(self, name: str, role: str, kind: str = "human") -> Json:
        """Make a principal; its token is told here, and never again."""
        _refuse_odd(name, role, kind)
        token = self._token("tip")
        made = Principal(name, self._authority.new_id("prn"), kind, role, self._authority.time())
        with self._store.database.transaction(durable=True):
            if not self._store.principals.add(made, _digest(token)):
                raise PlaneError(f"there is a principal {name!r} already", status=409, code="principal_exists")
        return {**spelled(made), "token": token}

    def rotate(self, name: str) -> Json:
        """Give a principal another token; the one before is void."""
        token = self._token("tip")
        with self._store.database.transaction(durable=True):
            if not self._store.principals.rotate(name, _digest(token)):
                raise _missing(name)
            found = self._store.principals.get(name)
        return {**spelled(found), "token": token} if found else {}

    def revoke(self, name: str) -> Json:
        """Take a principal's token away for good."""
        with self._store.database.transaction(durable=True):
            if not self._store.principals.revoke(name, self._authority.time()):
                raise _missing(name)
            found = self._store.principals.get(name)
        return spelled(found) if found else {}

    def all(self) -> list[Json]:
        """List the principals."""
        return [spelled(one) for one in self._store.principals.all()]

    def enroll_token(self, pool: str | None, seconds: int) -> Json:
        """Make a token that one runner can enrol with, once."""
        if type(seconds) is not int or not 0 < seconds <= LONGEST_ENROLMENT_SECONDS:
            raise InputError(f"an enrolment token lasts between 1 and {LONGEST_ENROLMENT_SECONDS} seconds")
        if pool is not None:
            _refuse_odd_pool(pool)
        token, now = self._token("enr"), self._authority.time()
        with self._store.database.transaction(durable=True):
            self._store.enroll_tokens.forget(now)
            self._store.enroll_tokens.add(_digest(token), pool, now + seconds * SECOND_MS)
        told = {"token": token, "expiresAt": timestamp(now + seconds * SECOND_MS)}
        return told if pool is None else {**told, "pool": pool}

    def _token(self, kind: str) -> str:
        return f"{kind}_{urlsafe_b64encode(self._authority.random(TOKEN_BYTES)).rstrip(b'=').decode()}"


class Enrolment:
    """Takes runners in."""

    def __init__(self, authority: Authority, leases: Leases) -> None:
        self._authority = authority
        self._store = authority.store
        self._leases = leases

    def enroll(self, body: Json) -> Json:
        """Take a runner in that has a token for it; the same key with the same token is the same runner."""
        token, pem, pool = (body.get(name) for name in ("enrollToken", "publicKeyPem", "pool"))
        if not isinstance(pem, str) or not isinstance(pool, str):
            raise InputError("enrolment needs `enrollToken`, `publicKeyPem` and `pool`")
        _refuse_odd_pool(pool)
        token_hash = _digest(token) if isinstance(token, str) and len(token) <= LONGEST_TOKEN else ""
        with self._store.database.transaction(durable=True):
            found = self._store.enroll_tokens.find(token_hash, self._authority.time())
            if found is None:
                raise PlaneError("this enrolment token is not one, or has run out", status=401, code="enroll_token")
            bound, used_by = found
            if bound is not None and bound != pool:
                raise PlaneError(f"this enrolment token is for the pool {bound!r}", status=403, code="other_pool")
            if used_by is not None and not self._is_same(used_by, pem, pool):
                raise PlaneError("this enrolment token was used before", status=401, code="enroll_token")
            self._refuse_known(pem, pool, used_by)
            enrolled = self._leases.enroll(pem, pool)
            self._store.enroll_tokens.use(token_hash, enrolled["runnerId"])
        key = self._authority.key.public
        return {**enrolled, "pool": pool, "planePublicKeyPem": key.pem, "planeKeyId": key.key_id}

    def _is_same(self, runner_id: str, pem: str, pool: str) -> bool:
        """Say whether a runner asks again, having lost the answer."""
        known = self._store.runners.get(runner_id)
        return known is not None and known.pool == pool and known.key == _key(pem)

    def _refuse_known(self, pem: str, pool: str, used_by: str | None) -> None:
        """Refuse a key that is enrolled already: keys are public, and who names one need not have it."""
        known = self._store.runners.known(_key(pem), pool)
        if known is not None and known != used_by:
            message = "a runner with this key is enrolled already"
            reasons = ("enrol with a new key: in an empty data directory",)
            raise PlaneError(message, status=409, code="runner_exists", reasons=reasons)


def spelled(principal: Principal) -> Json:
    """Spell a principal as the wire has it."""
    told = {
        "principalId": principal.principal_id,
        "name": principal.name,
        "kind": principal.kind,
        "role": principal.role,
        "createdAt": timestamp(principal.created_at),
    }
    return told if principal.revoked_at is None else {**told, "revokedAt": timestamp(principal.revoked_at)}


def _key(pem: str) -> PublicKey:
    try:
        return PublicKey.parse(pem)
    except SigningKeyError as error:
        raise InputError(f"the runner's key cannot be used: {error.message}") from error


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()


def _missing(name: str) -> NotFoundError:
    return NotFoundError(f"there is no principal {name[:LONGEST_NAME]!r}, or it is revoked")


def _refuse_odd(name: object, role: object, kind: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise InputError(f"a principal's name is 1 to {LONGEST_NAME} characters that can be shown")
    if name.startswith("run:"):
        raise InputError("a principal's name does not begin with `run:`")
    if role not in ROLES:
        raise InputError(f"there is no role {str(role)[:64]!r}", hint=f"there are {', '.join(ROLES)}")
    if kind not in KINDS:
        raise InputError(f"there is no kind {str(kind)[:64]!r}", hint=f"there are {', '.join(KINDS)}")


def _refuse_odd_pool(pool: object) -> None:
    if not isinstance(pool, str) or not 0 < len(pool) <= LONGEST_NAME or not pool.isprintable():
        raise InputError(f"a pool's name is 1 to {LONGEST_NAME} characters that can be shown")
