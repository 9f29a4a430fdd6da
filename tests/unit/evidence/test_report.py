"""Reports: three verdicts, every problem by its number, and never too many."""

import pytest

from tipstaff.evidence import CHECKS, Problem, Report
from tipstaff.evidence.report import MOST_CHARACTERS, MOST_PER_CHECK, Findings, printable


def report(*problems: Problem) -> Report:
    """A report with these problems."""
    return Report(kind="bundle", problems=problems)


DOUBT = Problem(number=27, message="unknown", certain=False)
FAULT = Problem(number=8, message="broken", place="events[3]")


@pytest.mark.parametrize(
    ("problems", "verdict"),
    [((), "valid"), ((DOUBT,), "unproven"), ((FAULT,), "invalid"), ((DOUBT, FAULT), "invalid")],
)
def test_the_verdict_is_the_worst_problem(problems, verdict):
    """Nothing is valid, doubt is unproven, and one certain problem is invalid whatever else there is."""
    assert report(*problems).verdict == verdict
    assert report(*problems).ok is (verdict == "valid")


def test_a_problem_is_one_line():
    """A problem is printed with its number and its place, if it has one."""
    assert [str(FAULT), str(DOUBT)] == ["8. events[3]: broken", "27. unknown"]


def test_the_checks_are_numbered_without_gaps():
    """The checks are numbered from 0 to 31."""
    assert list(CHECKS) == list(range(32))


def test_findings_are_sorted_and_bounded():
    """Problems come in the order of their checks; of many with one number a few, and a line that counts the others."""
    findings = Findings()
    for index in range(MOST_PER_CHECK + 5):
        findings.add(23, f"problem {index}")
    findings.add(8, "first")
    problems = findings.sorted()

    assert [problem.number for problem in problems] == [8] + [23] * (MOST_PER_CHECK + 1)
    assert problems[-1].message == "5 more problems of this kind"
    assert problems[1].message == "problem 0"


@pytest.mark.parametrize(("last", "verdict"), [(False, "unproven"), (True, "invalid")])
def test_what_is_left_out_still_counts(last, verdict):
    """Many doubts are no fault, but a fault among those that are only counted makes the whole invalid."""
    findings = Findings()
    for _ in range(MOST_PER_CHECK + 5):
        findings.add(23, "doubt", certain=False)
    findings.add(23, "the last", certain=last)

    assert report(*findings.sorted()).verdict == verdict


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, é and 漢字", "plain text, é and 漢字"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb\tc\0", "a\\r\\nb\\tc\\x00"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("x" * (MOST_CHARACTERS + 1), "x" * MOST_CHARACTERS + "…"),
        ("x" * MOST_CHARACTERS, "x" * MOST_CHARACTERS),
    ],
)
def test_hostile_text_is_escaped_and_shortened(text, shown):
    """What a terminal would obey, what turns the direction and half characters are escaped; long text is cut."""
    findings = Findings()
    findings.add(0, text, text)

    assert printable(text) == shown
    assert (findings.sorted()[0].message, findings.sorted()[0].place) == (shown, shown)
