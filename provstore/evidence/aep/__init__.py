"""Records of the agent evidence protocol: their canonical form, chains, signatures, schemas and axes."""

from provstore.evidence.aep.chains import canonical
from provstore.evidence.aep.gathering import gather
from provstore.evidence.aep.judging import judge

__all__ = ["canonical", "gather", "judge"]
