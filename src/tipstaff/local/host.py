"""What a receipt says of the host that ran it: the kernel, and the very programs that built the sandbox."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

PROGRAMS: Final = {"bwrap": Path("/usr/bin/bwrap")}


def host_facts() -> dict[str, Any]:
    """Name the kernel and the digests of the programs that a boundary rests on."""
    system = os.uname()
    tools = {
        name: f"sha256:{sha256(path.read_bytes()).hexdigest()}" for name, path in PROGRAMS.items() if path.exists()
    }
    return {"kernel": f"{system.sysname} {system.release} {system.machine}", "tools": tools}
