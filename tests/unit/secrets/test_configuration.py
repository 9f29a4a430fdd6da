"""`secrets.yaml`: what can be written there, and where it says that something is wrong."""

import json
import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tipstaff.errors import SecretError
from tipstaff.secrets.configuration import Configuration, load
from tipstaff.secrets.origins import Directory, Environment, File, Program, Store, is_name

EVERY_KIND = """
secrets:
  GITHUB_TOKEN: {store: true}
  DEPLOY_KEY: {file: /etc/deploy.key}
  OPENAI_API_KEY: {environment: OPENAI}
  "team/*": {directory: /run/credentials/tipstaff}
  "team/inner/*": {directory: /run/inner}
  DB_PASSWORD: {exec: [vault-helper, read, db], seconds: 2.5, environ: [VAULT_ADDR]}
  PLAIN: {exec: [/usr/bin/give]}
"""


@pytest.fixture
def home(tmp_path):
    """A home with nothing in it."""
    tmp_path.chmod(0o700)
    return tmp_path


def written(home, text):
    """Write the file as its owner would, and read it."""
    (home / "secrets.yaml").write_text(text)
    (home / "secrets.yaml").chmod(0o600)
    return load(home)


def test_every_kind_of_source_is_read(home):
    """Each kind, with its options and their defaults, is found by its name or its pattern."""
    configured = written(home, EVERY_KIND)

    assert configured.source_of("GITHUB_TOKEN") == Store()
    assert configured.source_of("DEPLOY_KEY") == File("/etc/deploy.key")
    assert configured.source_of("OPENAI_API_KEY") == Environment("OPENAI")
    assert configured.source_of("team/db") == Directory("/run/credentials/tipstaff", "team/")
    assert configured.source_of("team/inner/db") == Directory("/run/inner", "team/inner/")
    assert configured.source_of("DB_PASSWORD") == Program(("vault-helper", "read", "db"), 2.5, ("VAULT_ADDR",))
    assert configured.source_of("PLAIN") == Program(("/usr/bin/give",), 10.0, ())


@pytest.mark.parametrize("name", ["team", "team/", "team/a/b", "team/.hidden", "team/..", "Team/db", "other", ""])
def test_a_pattern_stands_for_plain_files_only(home, name):
    """A name below a folder of the pattern, a hidden one or a way out is not listed by it."""
    assert written(home, EVERY_KIND).source_of(name) is None


def test_a_name_goes_before_a_pattern(home):
    """Where a name and a pattern both fit, the name is meant; of two patterns the longer one."""
    text = 'secrets:\n  "*": {directory: /all}\n  "a/*": {directory: /a}\n  a/one: {store: true}\n'
    configured = written(home, text)

    assert configured.source_of("a/one") == Store()
    assert configured.source_of("a/two") == Directory("/a", "a/")
    assert configured.source_of("two") == Directory("/all", "")


def test_no_file_lists_nothing(home):
    """Without a file every name is unlisted."""
    assert load(home).source_of("GITHUB_TOKEN") is None


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "empty"),
        ("secrets: []", "1:10", "must be a mapping"),
        ("{}", "1:1", "`secrets` is missing"),
        ("[]", "1:1", "expected a mapping"),
        ("secret: {}", "1:1", "unknown key `secret`"),
        ("secrets: {}\nmore: 1", "2:1", "unknown key `more`"),
        ("secrets:\n  A: text", "2:6", "must be a mapping"),
        ("secrets:\n  A: {}", "2:6", "exactly one source"),
        ("secrets:\n  A: {store: true, file: /a}", "2:6", "exactly one source"),
        ("secrets:\n  A: {store: false}", "2:14", "can only be `true`"),
        ("secrets:\n  A: {store: true, seconds: 1}", "2:20", "unknown key `seconds`"),
        ("secrets:\n  A: {strore: true}", "2:7", "unknown key `strore`"),
        ("secrets:\n  A: {value: hunter2hunter2}", "2:7", "unknown key `value`"),
        ("secrets:\n  A: {file: a.key}", "2:13", "starts with /"),
        ("secrets:\n  A: {file: 7}", "2:13", "starts with /"),
        ("secrets:\n  A: {environment: $A}", "2:20", "must name a variable"),
        ("secrets:\n  A: {environment: 'A=B'}", "2:20", "must name a variable"),
        ("secrets:\n  A: {directory: /a}", "2:6", "ends in `*`"),
        ("secrets:\n  'a*': {directory: /a}", "2:3", "cannot name a secret"),
        ("secrets:\n  'a/*/b': {directory: /a}", "2:3", "cannot name a secret"),
        ("secrets:\n  '*': {file: /a}", "2:8", "only have a `directory`"),
        ("secrets:\n  '../a': {file: /a}", "2:3", "cannot name a secret"),
        ("secrets:\n  'a b': {file: /a}", "2:3", "cannot name a secret"),
        ("secrets:\n  A: {exec: vault read}", "2:13", "list of texts"),
        ("secrets:\n  A: {exec: []}", "2:13", "a program and its arguments"),
        ("secrets:\n  A: {exec: [vault, 7]}", "2:13", "list of texts"),
        ("secrets:\n  A: {exec: [./vault]}", "2:13", "a program and its arguments"),
        ("secrets:\n  A: {exec: [a/vault]}", "2:13", "a program and its arguments"),
        ("secrets:\n  A: {exec: [v], seconds: 0}", "2:27", "above 0"),
        ("secrets:\n  A: {exec: [v], seconds: 301}", "2:27", "at most 300"),
        ("secrets:\n  A: {exec: [v], seconds: true}", "2:27", "above 0"),
        ("secrets:\n  A: {exec: [v], seconds: soon}", "2:27", "above 0"),
        ("secrets:\n  A: {exec: [v], environ: A}", "2:27", "list of texts"),
        ("secrets:\n  A: {exec: [v], environ: [a-b]}", "2:27", "must name a variable"),
        ("secrets:\n  A: {store: true}\n  A: {store: true}", "3:3", "a second time"),
        ("secrets: &a\n  A: {store: true}", "1:10", "anchor"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(home, text, place, words):
    """Whatever is not exactly a configuration is an error with file, line and column, and quotes no value."""
    with pytest.raises(SecretError) as told:
        written(home, text)

    assert f"secrets.yaml:{place}: " in str(told.value)
    assert words in str(told.value)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("bits", "accepted"), [(0o600, True), (0o644, True), (0o400, True), (0o620, False), (0o602, False)]
)
def test_only_its_owner_may_write_it(home, bits, accepted):
    """A file that group or others may write names sources of theirs, and is refused with the command that mends it."""
    (home / "secrets.yaml").write_text(EVERY_KIND)
    (home / "secrets.yaml").chmod(bits)

    if accepted:
        assert load(home).source_of("GITHUB_TOKEN") == Store()
    else:
        with pytest.raises(SecretError, match="chmod 600"):
            load(home)


@pytest.mark.only_if(os.geteuid() == 0, "only root can give a file away")
def test_a_file_of_another_user_is_refused(home):
    """A configuration that belongs to somebody else is refused."""
    written(home, EVERY_KIND)
    os.chown(home / "secrets.yaml", 65534, 65534)

    with pytest.raises(SecretError, match="other users"):
        load(home)


def test_a_link_to_nowhere_is_not_an_absent_file(home):
    """Where the name is taken by a dangling link, a pipe or a folder, nothing is guessed; a good link is followed."""
    path = home / "secrets.yaml"
    path.symlink_to(home / "elsewhere.yaml")
    with pytest.raises(SecretError, match="link to nowhere"):
        load(home)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SecretError, match="not a plain file"):
        load(home)
    path.unlink()
    path.mkdir()
    with pytest.raises(SecretError, match="not a plain file"):
        load(home)
    path.rmdir()
    (home / "elsewhere.yaml").write_text(EVERY_KIND)
    (home / "elsewhere.yaml").chmod(0o600)
    path.symlink_to(home / "elsewhere.yaml")
    assert load(home).source_of("GITHUB_TOKEN") == Store()


def test_bytes_that_are_no_text_are_refused(home):
    """A file that is not UTF-8 is an error of ours."""
    (home / "secrets.yaml").write_bytes(b"secrets: {\xff: 1}")
    (home / "secrets.yaml").chmod(0o600)

    with pytest.raises(SecretError, match="UTF-8"):
        load(home)


WORDS = some.sampled_from(
    [
        "secrets",
        "A",
        "a/*",
        "*",
        "store",
        "file",
        "environment",
        "directory",
        "exec",
        "seconds",
        "environ",
        "/a",
        "",
        "é",
    ]
)
LEAVES = some.none() | some.booleans() | some.integers() | some.floats() | WORDS | some.text(max_size=5)
VALUES = some.recursive(
    LEAVES, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


@given(
    VALUES.map(lambda value: json.dumps({"secrets": {"A": value, "a/*": value}}).encode()) | some.binary(max_size=60)
)
def test_anything_parses_or_is_our_error(tmp_path_factory, data):
    """Whatever is in the file, it is a configuration or a `SecretError`."""
    path = tmp_path_factory.getbasetemp() / "secrets.yaml"
    path.write_bytes(data)
    path.chmod(0o600)

    with suppress(SecretError):
        assert isinstance(load(path.parent), Configuration)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("A", True), ("a/b.c-d_e", True), ("7", True), ("x" * 256, True), ("x" * 257, False), ("", False),
        ("/a", False), ("a/", False), ("a//b", False), (".a", False), ("..", False), ("a/../b", False), ("-a", False),
        ("a\n", False), ("a\0", False), ("é", False), ("a=b", False), ("*", False),
    ],
)  # fmt: skip
def test_what_can_name_a_secret(name, accepted):
    """A name is parts of plain characters: never a path that leads out, an option or an assignment."""
    assert is_name(name) is accepted
