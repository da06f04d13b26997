"""Whether policies let a bundle leave its broker: the two checks of the modular load manager before an unload.

| check         | the bundle stays if                                                                                  |
|---------------|------------------------------------------------------------------------------------------------------|
| policies      | no other broker is allowed to serve its namespace                                                    |
| anti-affinity | every allowed broker has the same number of namespaces of its group, so the bundle would come back   |

Source: Pulsar's `ModularLoadManagerImpl.shouldNamespacePoliciesUnload`, `shouldAntiAffinityNamespaceUnload`.
"""

from pulsar_barycenter.load.filters.anti_affinity import ANTI_AFFINITY_SETTING, anti_affinity_veto
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot


def unload_veto(snapshot: LoadSnapshot, request: PlacementRequest, source: str) -> Reason | None:
    """Return why policies forbid to unload the bundle of `request` from its broker `source`; None if they allow it.
    They forbid it if they allow no broker other than `source`, or by the rule for anti-affinity groups
    (`anti_affinity_veto`).
    """
    allowed = policy_candidates(snapshot, request)
    row = snapshot.brokers.index.get(source)
    if allowed.left == (row is not None and bool(allowed.kept[row])):
        return Reason(code=Code.POLICIES_FORBID, subject=request.bundle, settings=allowed.settings, detail=allowed.note)
    compared = anti_affinity_veto(snapshot, allowed.kept, request.namespace)
    if compared is None:
        return None
    return Reason(
        code=Code.ANTI_AFFINITY_FORBIDS,
        subject=request.bundle,
        compared=(compared,),
        settings=(ANTI_AFFINITY_SETTING,),
        detail=f"{request.namespace} is in the group {snapshot.policies.groups[request.namespace]}",
    )
