"""By what a plane is asked: its address as for runners, and a token that is never in sight."""

import pytest

from tipstaff.errors import InputError, NotFoundError, TipstaffError, UsageError
from tipstaff.remote.address import address_of, find_token


@pytest.mark.parametrize("plain", [True, False])
def test_an_address_is_read_as_runners_read_it(plain):
    """It has one spelling, and plain http beyond this machine has to be asked for."""
    assert address_of("HTTPS://Plane.Example.com:443/").url == "https://plane.example.com"
    assert address_of("http://127.0.0.1:7172").is_local
    if plain:
        assert not address_of("http://plane.example.com", plain=True).is_local
        return

    with pytest.raises(UsageError, match="would read the token"):
        address_of("http://plane.example.com")


def test_the_token_comes_from_a_named_file_then_the_environment(tmp_path):
    """A file that was named wins over TIPSTAFF_TOKEN, which wins over TIPSTAFF_TOKEN_FILE."""
    for name in ("named", "other"):
        (tmp_path / name).write_text(f"tip_{name}\n")
        (tmp_path / name).chmod(0o600)
    environ = {"TIPSTAFF_TOKEN": "tip_variable", "TIPSTAFF_TOKEN_FILE": str(tmp_path / "other")}

    assert find_token(environ, str(tmp_path / "named")) == "tip_named"
    assert find_token(environ) == "tip_variable"
    assert find_token({"TIPSTAFF_TOKEN_FILE": str(tmp_path / "other")}) == "tip_other"
    assert find_token({}) is None


@pytest.mark.parametrize(("mode", "accepted"), [(0o600, True), (0o640, True), (0o644, False), (0o602, False)])
def test_a_token_that_every_user_may_use_is_refused(tmp_path, mode, accepted):
    """A token's file that others than its owner and group may read or write is refused, with what to do."""
    path = tmp_path / "token"
    path.write_text("tip_x")
    path.chmod(mode)
    if accepted:
        assert find_token({}, str(path)) == "tip_x"
        return

    with pytest.raises(UsageError, match="chmod 600"):
        find_token({}, str(path))


def test_a_token_file_that_is_not_there_is_told(tmp_path):
    """A file that cannot be read is an error that names it."""
    with pytest.raises(NotFoundError, match="absent"):
        find_token({}, str(tmp_path / "absent"))


@pytest.mark.parametrize("token", ["", "two words", "line\nfeed", "x" * 5000, "nön-ascii"])
def test_what_is_no_token_is_refused_and_not_repeated(token):
    """What no header can carry is refused, and never shown."""
    with pytest.raises(InputError) as caught:
        address_of("https://plane.example.com", token)

    assert not token or token not in str(caught.value)


def test_an_address_does_not_show_its_token():
    """Neither the text nor the representation of an address holds the token."""
    assert "tip_hidden" not in repr(address_of("https://plane.example.com", "tip_hidden"))


@pytest.mark.parametrize("there", [True, False])
def test_an_authority_file_has_to_be_there(tmp_path, there):
    """A file of certificates that is not there is an error before anything is sent."""
    path = tmp_path / "ca.pem"
    if there:
        path.write_text("later")
        assert address_of("https://plane.example.com", None, str(path)).authority_file == str(path)
        return

    with pytest.raises(TipstaffError, match=r"ca\.pem"):
        address_of("https://plane.example.com", None, str(path))
