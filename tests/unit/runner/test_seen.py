"""A claim is taken once: what was taken is known after a restart, until its contract has expired."""

from tipstaff.runner import seen
from tipstaff.runner.seen import Seen


def head(number):
    """Give a hash."""
    return f"{number:064x}"


def test_a_claim_is_new_once(tmp_path):
    """The same hash is refused the second time, also by the next process; another is taken."""
    first = Seen(tmp_path, 0)
    assert (first.take(head(1), 1, 1000), first.take(head(1), 1, 1000), first.take(head(2), 1, 1000)) == (
        True,
        False,
        True,
    )
    again = Seen(tmp_path, 0)
    assert (again.take(head(1), 1, 1000), again.take(head(2), 1, 1000), again.take(head(3), 1, 1000)) == (
        False,
        False,
        True,
    )


def test_each_attempt_at_a_contract_is_new_once(tmp_path):
    """A run that the plane gives again is another attempt at the same contract; the same attempt is a recording."""
    Seen(tmp_path, 0).take(head(1), 1, 1000)
    again = Seen(tmp_path, 0)
    assert (again.take(head(1), 2, 1000), again.take(head(1), 2, 1000), again.take(head(1), 1, 1000)) == (
        True,
        False,
        False,
    )


def test_what_has_expired_is_forgotten(tmp_path):
    """After its expiry nobody can use a contract, so its claim need not be known."""
    Seen(tmp_path, 0).take(head(1), 1, 1000)
    Seen(tmp_path, 1000)
    assert head(1) in (tmp_path / "claimed").read_text()
    Seen(tmp_path, 1001)
    assert (tmp_path / "claimed").read_text() == ""


def test_damage_says_nothing_and_the_list_is_bounded(tmp_path, monkeypatch):
    """Half a line is passed over; where there are too many, the oldest give way."""
    monkeypatch.setattr(seen, "MOST", 10)
    (tmp_path / "claimed").write_bytes(head(1).encode() + b" 1 1000\n\xff\xff\n" + head(2).encode()[:30])
    known = Seen(tmp_path, 0)
    assert not known.take(head(1), 1, 1000)
    for number in range(3, 100):
        assert known.take(head(number), 1, 1000)
    assert len((tmp_path / "claimed").read_text().split()) <= 3 * 10
    assert not known.take(head(99), 1, 1000)


def test_half_a_line_swallows_no_other(tmp_path):
    """What is noted after a write that failed half way is known after a restart."""
    known = Seen(tmp_path, 0)
    with (tmp_path / "claimed").open("a") as file:
        file.write(head(1)[:30])
    assert known.take(head(2), 1, 1000)

    assert not Seen(tmp_path, 0).take(head(2), 1, 1000)
