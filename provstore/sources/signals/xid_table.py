"""XID codes: which are faults of an application, and what the best known ones mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provstore.errors import ConfigError

APPLICATION, HARDWARE = "application", "hardware"


@dataclass(frozen=True, slots=True)
class XidTable:
    """Classes of XID codes; a code that is not listed is a fault of the hardware."""

    version: int
    classes: Mapping[int, str]
    meanings: Mapping[int, str]

    def fault_class(self, code: int) -> str:
        """Return ``application`` or ``hardware``."""
        return self.classes.get(code, HARDWARE)


TABLE = XidTable(
    version=1,
    classes={
        **dict.fromkeys((13, 31, 43, 45), APPLICATION),
        **dict.fromkeys((48, 63, 64, 74, 79, 94, 95, 119, 154), HARDWARE),
    },
    meanings={
        13: "a kernel of the application raised an exception in the graphics engine",
        31: "an application read or wrote an address that is not mapped",
        43: "the GPU stopped the work of one application; others go on",
        45: "work was taken off the GPU after an earlier error, or because its process ended",
        48: "an ECC error of two bits, which cannot be corrected",
        63: "a page or row of memory is marked for replacement",
        64: "a page or row of memory could not be marked for replacement",
        74: "an NVLink error",
        79: "the GPU no longer answers on the bus",
        94: "a memory error that stayed within one application",
        95: "a memory error that may reach every application on the GPU",
        119: "the GPU's system processor did not answer in time",
        154: "the GPU says which recovery it needs",
    },
)
"""From NVIDIA's catalogue of XID errors; classes as in GCM's health checks, but for 63, 68, 92 and 109, which are no
fault of an application."""


def overridden(table: XidTable, classes: Mapping[int | str, str]) -> XidTable:
    """Return the table with the classes that an operator states.

    Raises:
        ConfigError: A code is no positive integer, or a class neither ``application`` nor ``hardware``.
    """
    stated: dict[int, str] = {}
    for code, said in classes.items():
        text = str(code)
        if not (text.isascii() and text.isdecimal() and int(text) > 0):
            raise ConfigError(f"{code!r}: XID: is no positive integer")
        if said not in (APPLICATION, HARDWARE):
            raise ConfigError(f"{text}: class of an XID: {said!r} is neither {APPLICATION} nor {HARDWARE}")
        stated[int(text)] = said
    return XidTable(table.version, {**table.classes, **stated}, table.meanings)
