"""Where values come from: what is configured and fit is given, what is in doubt never."""

import json
import os
import subprocess
import sys

import pytest

from tests.unit.secrets.traces import shown
from tipstaff.errors import SecretError
from tipstaff.secrets.sealed import SealedStore
from tipstaff.secrets.sources import Known, Sources, fault_of

CANARY = "canary-4f1c9a77e2"
OTHER = "another-91b2c3d4e5"


@pytest.fixture
def home(tmp_path):
    """A home as `tipstaff` makes it."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def configured(home, environ=None, **entries):
    """Write a configuration and open it."""
    (home / "secrets.yaml").write_text(json.dumps({"secrets": entries}))
    (home / "secrets.yaml").chmod(0o600)
    return Sources(home, environ if environ is not None else {"PATH": "/usr/bin:/bin"})


def private(path, data=CANARY):
    """Write a private file."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    path.chmod(0o600)
    return str(path)


def refused(sources, name, words):
    """Claim that a name gives an error with these words, and that nothing in the error holds the value."""
    with pytest.raises(SecretError, match=words) as told:
        sources.read(name)
    assert "canary" not in shown(told.value)
    assert sources.fault(name) == str(told.value)


def printing(value):
    """A program that prints a value."""
    return ["/bin/sh", "-c", f"printf '%s' '{json.dumps({'value': value})}'"]


def test_each_kind_of_source_is_read(home, tmp_path):
    """A value is the same from the store, a file, a folder, the environment and a program."""
    SealedStore(home).set("S", CANARY)
    (tmp_path / "folder").mkdir(mode=0o755)
    sources = configured(
        home,
        {"PATH": "/usr/bin:/bin", "VARIABLE": CANARY},
        S={"store": True},
        F={"file": private(tmp_path / "file", CANARY + "\n")},
        E={"environment": "VARIABLE"},
        P={"exec": printing(CANARY)},
        **{"d/*": {"directory": str(tmp_path / "folder")}},
    )
    private(tmp_path / "folder" / "one")

    for name in ("S", "F", "E", "P", "d/one"):
        assert sources.read(name) == CANARY, name
        assert sources.fault(name) == "", name


def test_without_a_configuration_the_store_is_asked(home):
    """A name that is not listed comes from the store; without either there is no such secret."""
    sources = Sources(home, {"A": CANARY})
    assert sources.read("A") is None
    SealedStore(home).set("A", CANARY)
    assert sources.read("A") == CANARY
    assert Sources(home / "nowhere", {}).read("A") is None


def test_what_is_listed_elsewhere_is_not_taken_from_the_store(home):
    """A listed name comes from its own source, also when the store has another value for it."""
    SealedStore(home).set("A", OTHER)

    assert configured(home, {"A": CANARY}, A={"environment": "A"}).read("A") == CANARY
    refused(configured(home, {}, A={"environment": "A"}), "A", "the variable A is not set")
    assert configured(home, {}, B={"environment": "A"}).read("A") == OTHER


@pytest.mark.parametrize("name", ["", "../A", "A\n", "A\0", "/etc/passwd", "a b", "*", "d/../A", "d/*", "x" * 300])
def test_odd_names_are_no_secrets(home, tmp_path, name):
    """A name that cannot be one is no secret, whatever files there are."""
    private(tmp_path / "A")
    (tmp_path / "d").mkdir()
    sources = configured(
        home, **{"*": {"directory": str(tmp_path / "d")}}, **{"d/*": {"directory": str(tmp_path / "d")}}
    )

    assert sources.read(name) is None


def test_a_rotation_counts_at_once(home, tmp_path):
    """A value is read anew each time, and so is the configuration."""
    sources = configured(home, {"A": OTHER}, A={"file": private(tmp_path / "a")})
    assert sources.read("A") == CANARY
    private(tmp_path / "a", OTHER)
    assert sources.read("A") == OTHER
    configured(home, B={"store": True})
    assert sources.read("A") is None


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (f"{CANARY}\n", CANARY),
        (f"{CANARY}\n\n", f"{CANARY}\n"),
        (f"{CANARY}\r\n", f"{CANARY}\r"),
        (f" {CANARY} é\nb", f" {CANARY} é\nb"),
        ("ab" * 32768 + "\n", "ab" * 32768),
    ],
)
def test_one_final_line_feed_is_taken_off(home, tmp_path, data, value):
    """Of a file one final line feed is taken off and nothing else is touched, up to 64 KiB."""
    expected = fault_of(value)
    sources = configured(home, A={"file": private(tmp_path / "a", data)})

    if expected:
        refused(sources, "A", "cannot be given")
    else:
        assert sources.read("A") == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("short", "shorter than"),
        ("aaaaaaaaaaaaaaaa", "different"),
        (f"{CANARY}\0", "NUL"),
        (CANARY * 5000, "larger than|longer than|more than"),
    ],
)
def test_unfit_values_are_not_given(home, tmp_path, value, words):
    """A value that could not be kept out of outputs is not given, from whichever source it comes."""
    ways = {"F": {"file": private(tmp_path / "a", value)}, "E": {"environment": "A"}}
    sources = configured(home, {"A": value, "PATH": "/usr/bin:/bin"}, **ways)
    for name in ways:
        refused(sources, name, words)
    SealedStore(home).set("S", "long-enough-for-anything")
    assert sources.read("S") == "long-enough-for-anything"


def test_the_store_is_judged_at_release_too(home):
    """A value that was set when it was still fit, or past the command, is not given when it is not."""
    SealedStore(home).set("A", "short")
    SealedStore(home).set("B", CANARY)

    refused(Sources(home, {}), "A", "shorter than")
    assert Sources(home, {}).read("B") == CANARY


def test_a_program_gives_an_unfit_value(home):
    """What a program prints is judged as any value is."""
    refused(configured(home, A={"exec": printing("short")}), "A", "shorter than")
    assert configured(home, A={"exec": printing(CANARY)}).read("A") == CANARY


def test_values_that_are_no_text_are_not_given(home, tmp_path):
    """Bytes that are not UTF-8, in a file or a variable, are refused with what to do about it."""
    raw = b"\xff\xfe canary canary"
    sources = configured(
        home,
        {"A": raw.decode(errors="surrogateescape")},
        F={"file": private(tmp_path / "a", raw)},
        E={"environment": "A"},
    )

    refused(sources, "F", "base64")
    refused(sources, "E", "base64")


def test_a_broken_source_is_said(home, tmp_path):
    """A listed source that has nothing, or may be seen by others, is an error with what to do; never None."""
    (tmp_path / "open").write_text(CANARY)
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "link").symlink_to(private(tmp_path / "good"))
    sources = configured(
        home,
        OPEN={"file": str(tmp_path / "open")},
        LINK={"file": str(tmp_path / "link")},
        ABSENT={"file": str(tmp_path / "absent")},
        GOOD={"file": str(tmp_path / "good")},
        STORE={"store": True},
        P={"exec": ["/bin/sh", "-c", "echo 'not today' >&2; exit 4"]},
        HANGS={"exec": ["/bin/sleep", "60"], "seconds": 0.2},
        **{"n/*": {"directory": str(tmp_path / "nowhere")}},
    )

    refused(sources, "OPEN", "chmod 600")
    refused(sources, "LINK", "a link is not followed")
    refused(sources, "ABSENT", "there is no file")
    refused(sources, "STORE", "tipstaff secrets set STORE")
    refused(sources, "P", r"its program \(/bin/sh\) ended with exit code 4; it says: not today")
    refused(sources, "HANGS", "does not answer within 0.2 seconds")
    refused(sources, "n/one", "there is no folder")
    assert sources.read("GOOD") == CANARY


def test_a_damaged_store_breaks_only_its_own(home, tmp_path):
    """A damaged store gives an error for its names and for unlisted ones; other sources are read all the same."""
    sources = configured(home, F={"file": private(tmp_path / "f")})
    SealedStore(home).set("A", CANARY)
    (home / "secrets.sealed").write_text("{")

    refused(sources, "A", "damaged")
    refused(sources, "UNLISTED", "damaged")
    assert sources.read("F") == CANARY


def test_a_damaged_configuration_gives_nothing(home):
    """With a configuration that is wrong nothing is given, not even from the store: it might mean another source."""
    SealedStore(home).set("A", CANARY)
    (home / "secrets.yaml").write_text("secrets:\n  B: {}\n")
    (home / "secrets.yaml").chmod(0o600)

    refused(Sources(home, {}), "A", "secrets.yaml:2:6")
    (home / "secrets.yaml").unlink()
    assert Sources(home, {}).read("A") == CANARY


@pytest.mark.parametrize(("bits", "accepted"), [(0o755, True), (0o775, False)])
def test_a_folder_that_others_can_change_is_refused(home, tmp_path, bits, accepted):
    """A folder in which others may put files gives nothing, however private the file is."""
    (tmp_path / "folder").mkdir()
    private(tmp_path / "folder" / "one")
    (tmp_path / "folder").chmod(bits)
    sources = configured(home, **{"d/*": {"directory": str(tmp_path / "folder")}})

    if accepted:
        assert sources.read("d/one") == CANARY
        assert sources.read("d/two") is None
    else:
        refused(sources, "d/one", "other users")


def test_a_folder_gives_no_way_out(home, tmp_path):
    """A link in a folder is not followed, and a folder in it is no secret."""
    (tmp_path / "folder" / "inner").mkdir(parents=True, mode=0o755)
    private(tmp_path / "outside")
    private(tmp_path / "folder" / "inner" / "deep")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "outside")
    sources = configured(home, **{"d/*": {"directory": str(tmp_path / "folder")}})

    refused(sources, "d/link", "link")
    refused(sources, "d/inner", "not a plain file")
    assert sources.read("d/inner/deep") is None


def test_another_file_cannot_be_linked_in(home, tmp_path):
    """A private file that somebody linked to the name of a secret is not given: it may be any file of ours."""
    (tmp_path / "folder").mkdir(mode=0o755)
    private(tmp_path / "id_ed25519")
    for name in ("one", "folder/one"):
        (tmp_path / name).hardlink_to(tmp_path / "id_ed25519")
    sources = configured(home, A={"file": str(tmp_path / "one")}, **{"d/*": {"directory": str(tmp_path / "folder")}})

    refused(sources, "A", "hard links")
    refused(sources, "d/one", "hard links")
    private(tmp_path / "folder" / "two")
    assert sources.read("d/two") == CANARY


def test_all_names_are_listed_without_reading(home, tmp_path):
    """The list has each name with its source and its times; no program runs for it, and no value is in it."""
    SealedStore(home, lambda: 1_794_744_000_000).set("S", CANARY)
    SealedStore(home, lambda: 1_794_744_000_000).set("E", OTHER)
    (tmp_path / "folder" / "below").mkdir(parents=True, mode=0o755)
    os.utime(private(tmp_path / "folder" / "one"), (0, 1))
    os.utime(private(tmp_path / "file"), (0, 2))
    sources = configured(
        home,
        E={"environment": "E"},
        F={"file": str(tmp_path / "file")},
        L={"store": True},
        P={"exec": ["/usr/bin/touch", str(tmp_path / "ran")]},
        **{"d/*": {"directory": str(tmp_path / "folder")}},
        **{"n/*": {"directory": str(tmp_path / "nowhere")}},
    )

    assert sources.names() == [
        Known("E", "environment"),
        Known("F", "file", "1970-01-01T00:00:02.000Z"),
        Known("L", "store"),
        Known("P", "exec"),
        Known("S", "store", "2026-11-15T12:00:00.000Z"),
        Known("d/one", "directory", "1970-01-01T00:00:01.000Z"),
        Known("n/*", "directory"),
    ]
    assert not (tmp_path / "ran").exists()
    assert "there is no folder" in sources.fault("n/*")
    assert sources.fault("d/*") == ""


def test_a_name_that_is_kept_elsewhere_is_known(home):
    """Setting a name in the store makes sense only where the configuration does not send readers elsewhere."""
    sources = configured(home, E={"environment": "E"}, S={"store": True})

    assert (sources.kept_elsewhere("E"), sources.kept_elsewhere("S"), sources.kept_elsewhere("U")) == (
        "environment",
        "",
        "",
    )


def test_nothing_heavy_is_imported():
    """Importing the sources loads neither YAML, cryptography nor subprocess, nor what redaction searches with."""
    code = "import sys; import tipstaff.secrets.sources; print(*sorted(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60, text=True)

    assert not {"yaml", "cryptography", "ssl", "asyncio", "ctypes", "subprocess", "ahocorasick_rs"} & set(
        ended.stdout.split()
    )
