"""Claims about what asking a policy costs before it is asked."""

import subprocess
import sys


def test_yaml_is_imported_only_to_read_a_policy():
    """Importing `tipstaff.policy` does not import PyYAML; reading a policy from text does."""
    script = (
        "import sys, tipstaff.policy as policy; before = 'yaml' in sys.modules\n"
        "policy.parse_policy('version: tipstaff.policy.v1\\nname: x\\n'); print(before, 'yaml' in sys.modules)"
    )

    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60, text=True)

    assert found.stdout.split() == ["False", "True"]
