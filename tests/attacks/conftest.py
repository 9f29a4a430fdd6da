"""What attacks need: the tiers, a way to run something in each, a web out there, and a home from which runs start."""

from tests.acceptance.outing import outing, web
from tests.conformance.conftest import run, tier, workspace

__all__ = ["outing", "run", "tier", "web", "workspace"]
