"""What attacks on isolation need: the tiers, and a way to run something in each, as the conformance suite has them."""

from tests.conformance.conftest import run, tier, workspace

__all__ = ["run", "tier", "workspace"]
