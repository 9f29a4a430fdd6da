"""A run is followed across cuts: nothing twice, nothing out of order, and not for ever."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.remote.scripted import Reply, event, json_reply, scripted
from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.remote.address import address_of
from tipstaff.remote.following import Cut, Ended, Link, Output, Standing, follow, read
from tipstaff.remote.wire import Wire

STREAM = {"Content-Type": "text/event-stream"}
RUN = "run_1"


def output(text, offset=0, stream="stdout"):
    """Spell a piece of output."""
    return {"stream": stream, "offset": offset, "data": base64.b64encode(text.encode()).decode()}


def followed(*replies, patience_seconds=60.0):
    """Follow a run at a plane that gives these answers, one after another."""
    left = iter(replies)
    with scripted(lambda _: next(left)) as plane, Wire(address_of(plane.url, "tip_x")) as wire:
        happened = list(follow(wire, RUN, patience_seconds=patience_seconds, sleep=lambda _: None))
    return happened, plane.asked


def test_what_happens_is_told_in_order():
    """Events, output, standing and the end come as the plane tells them; what is unknown is left out."""
    link = {"seq": 0, "event": {"type": "run.created"}}
    body = b": hello\n\n" + b"".join(
        [
            event("status", {"status": "created", "position": 2}, "0.0.0"),
            event("link", link, "1.0.0"),
            event("weather", {"rain": True}, "1.0.0"),
            event("output", output("hi"), "1.2.0"),
            event("end", {"status": "completed"}, "1.2.0"),
        ]
    )

    happened, _ = followed(Reply(200, body, STREAM))

    assert happened == [Standing("created", 2), Link(link), Output("stdout", 0, b"hi"), Ended("completed")]


def test_a_cut_is_resumed_behind_the_last_that_came():
    """After a cut, also in the middle of an event, the plane is asked for what follows the last whole one."""
    whole = event("output", output("one"), "0.3.0")
    cut = whole + event("output", output("two", 3), "0.6.0")
    rest = event("output", output("two", 3), "0.6.0") + event("end", {"status": "completed"}, "0.6.0")

    happened, asked = followed(Reply(200, cut, STREAM, cut=len(whole) + 20), Reply(200, rest, STREAM))

    assert [one for one in happened if not isinstance(one, Cut)] == [
        Output("stdout", 0, b"one"),
        Output("stdout", 3, b"two"),
        Ended("completed"),
    ]
    assert "last-event-id" not in asked[0].headers
    assert asked[1].headers["last-event-id"] == "0.3.0"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_plane_that_is_away_for_a_moment_is_asked_again(status):
    """A plane that is busy, or starts anew behind a gateway, is asked again."""
    end = Reply(200, event("end", {"status": "failed"}), STREAM)

    assert followed(json_reply({"error": "later"}, status), end)[0][-1] == Ended("failed")


@pytest.mark.parametrize(
    ("status", "kind"), [(401, PlaneError), (403, PlaneError), (404, NotFoundError), (500, PlaneError)]
)
def test_a_refusal_is_not_asked_again(status, kind):
    """What asking again cannot mend ends the following at once."""
    with pytest.raises(kind):
        followed(json_reply({"error": "no"}, status))


def test_patience_has_an_end():
    """A plane that stays away is given up, with a word how to go on looking."""
    with pytest.raises(PlaneError, match=r"cannot be followed any longer.*log -f run_1"):
        followed(json_reply({}, 502), json_reply({}, 502), patience_seconds=-1.0)


@pytest.mark.parametrize("number", ["é\u2028x", "1.2", "1.2.3.4", "a.b.c", "-1.0.0", "1.0.0 ", "9" * 17 + ".0.0"])
def test_an_odd_number_is_refused(number):
    """What would go back to the plane in a header is three numbers, or it is not taken."""
    odd = Reply(200, event("status", {"status": "running"}, number), STREAM)

    with pytest.raises(InputError, match="no place in a run"):
        followed(odd, Reply(200, event("end", {"status": "completed"}), STREAM))


def test_an_event_without_a_number_is_no_fault():
    """An event that does not say where it stands is told, and the place of the last one stands."""
    first = event("status", {"status": "running"}, "1.0.0") + event("status", {"status": "running"})
    _, asked = followed(Reply(200, first, STREAM), Reply(200, event("end", {"status": "completed"}), STREAM))

    assert asked[1].headers["last-event-id"] == "1.0.0"


def test_an_answer_that_is_no_stream_is_refused():
    """A plane that answers with something else than a stream of events is not followed."""
    with pytest.raises(InputError, match="does not tell"):
        followed(json_reply({"ok": True}))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("output", '{"stream":"stdin","offset":0,"data":""}'),
        ("output", '{"stream":"stdout","offset":-1,"data":""}'),
        ("output", '{"stream":"stdout","offset":true,"data":""}'),
        ("output", '{"stream":"stdout","offset":0,"data":"*"}'),
        ("output", '{"stream":"stdout","offset":0,"data":5}'),
        ("link", '{"event":5}'),
        ("link", "{}"),
        ("status", '{"status":5}'),
        ("status", '{"status":"x","position":"y"}'),
        ("end", "{}"),
        ("end", "no json"),
    ],
)
def test_what_cannot_be_read_is_refused(kind, data):
    """An event of a known kind that does not say what it should is an error of ours."""
    with pytest.raises(InputError, match="cannot be read"):
        read(kind, data)


@given(st.sampled_from(["link", "output", "status", "end", "other"]), st.text())
def test_any_text_is_read_or_refused(kind, data):
    """No text of an event is anything but read or refused."""
    try:
        read(kind, data)
    except InputError:
        return
