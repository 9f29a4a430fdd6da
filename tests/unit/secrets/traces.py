"""What an error would show to whoever prints it with the locals of its frames, as crash reporters do."""

from collections.abc import Iterator


def shown(error: BaseException | None) -> str:
    """Spell an error, its causes and everything that their frames hold, but the tests' own."""
    return "\n".join(_parts(error, set()))


def _parts(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield repr(error)
    yield str(error)
    trace = error.__traceback__
    while trace is not None:
        if "/tests/" not in trace.tb_frame.f_code.co_filename:
            yield from map(repr, trace.tb_frame.f_locals.values())
        trace = trace.tb_next
    yield from _parts(error.__cause__, seen)
    yield from _parts(error.__context__, seen)
