"""Who sits at this machine: by the account of the effective user id, never by a variable that anybody can set."""

import os
import pwd


def user_name() -> str:
    """Name the user of this process."""
    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid-{user}"
