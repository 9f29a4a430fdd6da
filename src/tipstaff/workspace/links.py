"""Where a symbolic link of a workspace leads: followed as the kernel would, by way of other links, but only on paper.

`..` goes up from where a link has led to and not from how it is spelled, so the spelling of one link alone proves
nothing: `s/up -> ..` makes `s/up/../x` lead out. Pure.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

MOST_LINKS: Final = 40  # the kernel's own: a longer chain leads nowhere


def leads_out(name: bytes, links: Mapping[bytes, bytes]) -> bool:
    """Say whether the link `name` leads out of the folder; `links` are all links of the folder with their targets."""
    at = name.split(b"/")[:-1]
    ahead = deque([links[name]])
    followed = 0
    while ahead and followed <= MOST_LINKS:
        target = ahead.popleft()
        part, _, rest = target.partition(b"/")
        if target.startswith(b"/") or (part == b".." and not at):
            return True
        if rest := rest.lstrip(b"/"):
            ahead.appendleft(rest)
        if part == b"..":
            at.pop()
        elif part != b".":
            beyond = links.get(b"/".join([*at, part]))
            if beyond is None:
                at.append(part)
            else:
                followed += 1
                ahead.appendleft(beyond)
    return False
