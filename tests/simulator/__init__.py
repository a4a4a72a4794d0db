"""An independent simulator of distributed jobs that writes Flight Recorder dumps and keeps the truth apart.

It runs programs of ranks by the semantics of NCCL streams and gloo threads; it shares nothing with the diagnosis, and
its truths come from the program that ran, not from the dumps.
"""

from .faults import HANGS, MISMATCHES, Fault
from .files import PREFIXES, VERSIONS, Style
from .layouts import LAYOUTS, Shape3D
from .scenario import Outcome, Scenario, simulate
from .truth import Truth
from .verdict import Verdict, judge

__all__ = [
    "HANGS",
    "LAYOUTS",
    "MISMATCHES",
    "PREFIXES",
    "VERSIONS",
    "Fault",
    "Outcome",
    "Scenario",
    "Shape3D",
    "Style",
    "Truth",
    "Verdict",
    "judge",
    "simulate",
]
