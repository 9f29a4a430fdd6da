"""Points in time, as people write them and as evidence spells them: UTC with milliseconds and `Z`."""

from datetime import UTC, datetime

from tipstaff.errors import UsageError


def now() -> str:
    """The wall clock."""
    return _spelled(datetime.now(UTC))


def point_in_time(text: str) -> str:
    """Read `2026-11-15` or `2026-11-15T12:00:00Z`, in UTC unless an offset is given."""
    try:
        value = datetime.fromisoformat(text)
        return _spelled(value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"'{text}' is not a time", hint="write 2026-11-15 or 2026-11-15T12:00:00Z") from error


def _spelled(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
