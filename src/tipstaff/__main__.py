"""`python -m tipstaff`: the command line, for when the script is not on the PATH. Holds no logic."""

import sys

from tipstaff.doors.cli import main

if __name__ == "__main__":
    sys.exit(main())
