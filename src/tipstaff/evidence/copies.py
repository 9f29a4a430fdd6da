"""What a receipt repeats of its events: secrets, hosts, models, disclosures, artifacts, in the protocol's words.

Whoever writes a receipt folds these from the chain, so that they cannot differ from it. Pure.
"""

from typing import Any

from tipstaff.evidence.chain import Chain


def copies(chain: Chain) -> dict[str, Any]:
    """Say again what the events said, as a receipt does."""
    diffs = [content for kind, content in chain.artifacts if kind == "diff"]
    return {
        "workspaceOut": {
            "diffHash": diffs[-1] if diffs else "",
            "artifactHashes": [content for _, content in chain.artifacts],
        },
        "secretsReleased": [{"name": name, "scope": scope, "ts": ts} for name, scope, ts in chain.secrets],
        "networkAccessed": [{"host": host, "decision": answer} for host, answer in sorted(chain.network)],
        "modelsUsed": [{"provider": provider, "model": model} for provider, model in sorted(chain.models)],
        "boundaryDisclosures": [
            {"direction": direction, "contentHash": content, "dataClass": data_class}
            for direction, content, data_class in chain.disclosures
        ],
    }
