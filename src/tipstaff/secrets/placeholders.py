"""What a sandbox gets in the place of a secret that is injected: a text that looks like the vendor's keys, and is none.

Programs look at a key before they send it: its prefix, its length, its letters. A placeholder has these and nothing
else of the value; the rest is random, so that it is met nowhere by chance. A value that is shorter than that takes
gets a longer placeholder. Pure: randomness is passed in.
"""

import base64
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Final

RandomBytes = Callable[[int], bytes]

MIN_RANDOM: Final = 16  # characters; of ten letters these are 53 bits
MIN_SECRET: Final = 8  # characters behind a prefix; where there are fewer, it is no prefix
# Beginnings that vendors publish, so that programs and scanners know their keys. The longest that fits counts.
PREFIXES: Final = (
    "AIza", "AKIA", "ASIA", "SG.", "atlasv1.", "csk-", "dapi", "dckr_pat_", "dop_v1_", "figd_", "fm2_", "fw_",
    "ghb_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glcbt-", "gldt-", "glft-", "glpat-", "glptt-",
    "glrt-", "glsa_", "gsk_", "hf_", "hvb.", "hvs.", "key-", "lin_api_", "npm_", "ntn_", "nvapi-", "ops_", "pk_live_",
    "pk_test_", "pplx-", "pypi-", "r8_", "rk_live_", "rk_test_", "secret_", "shpat_", "sk-", "sk-ant-",
    "sk-ant-admin01-", "sk-ant-api03-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-or-v1-", "sk-proj-", "sk-svcacct-",
    "sk_live_", "sk_test_", "sntrys_", "tskey-api-", "tskey-auth-", "tvly-", "whsec_", "xai-", "xapp-1-", "xoxa-2-",
    "xoxb-", "xoxe.xoxp-1-", "xoxp-", "xoxs-", "ya29.",
)  # fmt: skip
_LOWER, _UPPER, _DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALPHABETS: Final = (  # the first that has every letter of the value is used; only that much is said of the value
    _DIGITS, _DIGITS + "abcdef", _DIGITS + "ABCDEF", _UPPER + "234567", _DIGITS + _LOWER, _DIGITS + _UPPER,
    _DIGITS + _LOWER + _UPPER, _DIGITS + _LOWER + _UPPER + "-_",
)  # fmt: skip
TOKEN_HEAD: Final = "eyJhbGciOiJIUzI1NiJ9"  # noqa: S105 - {"alg":"HS256"}, as JSON Web Tokens begin
TOKEN_SIGNATURE: Final = 43
TOKEN_MIN: Final = 96  # shorter is none of these
_CLAIMS: Final = ('{"sub":"', '"}')


def placeholders_for(values: Mapping[str, str], random_bytes: RandomBytes) -> dict[str, str]:
    """Make a placeholder for each secret, no two alike."""
    made: dict[str, str] = {}
    for name, value in sorted(values.items()):
        placeholder = placeholder_for(value, random_bytes)
        while _told(placeholder, values.values()) or placeholder in made.values():
            placeholder = placeholder_for(value, random_bytes)
        made[name] = placeholder
    return made


def placeholder_for(value: str, random_bytes: RandomBytes) -> str:
    """Make a text that looks like `value` to whoever does not know it."""
    if len(value) >= TOKEN_MIN and value.startswith("eyJ") and value.count(".") == 2:  # noqa: PLR2004 - three parts
        return _token(len(value), random_bytes)
    prefix = known_beginning(value)
    rest = value[len(prefix) :]
    letters = next((alphabet for alphabet in ALPHABETS if set(rest) <= set(alphabet)), ALPHABETS[-1])
    return prefix + _random(max(len(rest), MIN_RANDOM), letters, random_bytes)


def known_beginning(value: str) -> str:
    """Give the part of `value` that its vendor publishes, and everybody knows."""
    fitting = (known for known in PREFIXES if value.startswith(known) and len(value) >= len(known) + MIN_SECRET)
    return max(fitting, key=len, default="")


def _told(placeholder: str, values: Iterable[str]) -> bool:
    return any(placeholder in value or (value and value in placeholder) for value in values)


def _token(length: int, random_bytes: RandomBytes) -> str:
    """Make a JSON Web Token that can be read and verifies nowhere."""
    signature = TOKEN_SIGNATURE
    claims = length - len(TOKEN_HEAD) - signature - 2
    if claims % 4 == 1:  # base64 has no such length
        claims, signature = claims + 1, signature - 1
    before, after = _CLAIMS
    subject = _random(claims * 3 // 4 - len(before + after), ALPHABETS[-2], random_bytes)
    spelled = base64.urlsafe_b64encode(f"{before}{subject}{after}".encode()).decode().rstrip("=")
    return f"{TOKEN_HEAD}.{spelled}.{_random(signature, ALPHABETS[-1], random_bytes)}"


def _random(length: int, letters: str, random_bytes: RandomBytes) -> str:
    """Pick letters, each as likely as the others."""
    fair = 256 - 256 % len(letters)
    picked = ""
    while len(picked) < length:
        picked += "".join(letters[byte % len(letters)] for byte in random_bytes(2 * length) if byte < fair)
    return picked[:length]
