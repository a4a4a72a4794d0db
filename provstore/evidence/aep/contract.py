"""The verdict on a record in the form of the family's verifier-result contract.

That contract knows two outcomes of a chain; the others are told as not evaluated, with their name as the detail.
"""

from __future__ import annotations

from typing import Final

from provstore.model.aep import Axis, RecordVerdict

_CHAIN_STATUSES: Final = ("intact", "broken")


def envelope(record: RecordVerdict) -> dict[str, object]:
    """Return the result of one record; each of its five axes is always there."""
    axes = record.axes
    semantic = _axis(axes["semantic"])
    if axes["semantic"].evaluated:
        semantic["violations"] = list(_listed(axes["semantic"].details.get("violations")))
    authenticity = _axis(axes["authenticity"])
    if "binding" in axes["authenticity"].details:
        authenticity["binding"] = axes["authenticity"].details["binding"]
    return {
        "structural": _axis(axes["structural"]),
        "semantic": semantic,
        "authenticity": authenticity,
        "chain": _chain(axes["chain"]),
        "capture": {"evaluated": False},
    }


def _axis(axis: Axis) -> dict[str, object]:
    said: dict[str, object] = {"evaluated": axis.evaluated}
    if axis.evaluated:
        said["status"] = axis.status
    if axis.reason is not None:
        said["detail"] = axis.reason
    return said


def _chain(axis: Axis) -> dict[str, object]:
    if axis.evaluated and axis.status not in _CHAIN_STATUSES:
        return {"evaluated": False, "detail": axis.status}
    return _axis(axis)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
