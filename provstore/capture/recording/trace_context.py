"""Trace context: which agent action launched this run, as options and the environment say it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from provstore.model.action import TraceContext

TRACE_ID, PARENT_TRACE_ID, PARENT_ACTION, TRACEPARENT = (
    "PROVSTORE_TRACE_ID",
    "PROVSTORE_PARENT_TRACE_ID",
    "PROVSTORE_PARENT_ACTION",
    "TRACEPARENT",
)


def trace_context(
    trace_id: str | None = None,
    parent_trace_id: str | None = None,
    parent_action: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> TraceContext:
    """Return what launched this run; of several trace ids the first counts, others are its conflicts.

    Args:
        trace_id: Comes before ``PROVSTORE_TRACE_ID``, and that before ``TRACEPARENT``.
        parent_trace_id: Comes before ``PROVSTORE_PARENT_TRACE_ID``.
        parent_action: ``<run_id>/<action_id>``; comes before ``PROVSTORE_PARENT_ACTION``.
        environment: Where the variables are.
    """
    carried = environment.get(TRACEPARENT, "")
    ids = [text for text in (trace_id, environment.get(TRACE_ID), carried) if text]
    # The carrier holds the trace id inside: it agrees with a source that names that part alone.
    inner = carried.split("-")[1] if carried.count("-") >= 3 else carried
    chosen = ids[0] if ids else None
    others = dict.fromkeys(
        text for text in ids[1:] if text != chosen and not (text == carried and chosen in {carried, inner})
    )
    return TraceContext(
        chosen,
        parent_trace_id or environment.get(PARENT_TRACE_ID) or None,
        parent_action or environment.get(PARENT_ACTION) or None,
        tuple(others),
    )
