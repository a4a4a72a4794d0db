"""Whether it is healthy that a query to Prometheus has no series."""

from __future__ import annotations

import pytest

from provstore.sources.signals.promql import may_be_empty


@pytest.mark.parametrize(
    "query",
    [
        'ALERTS{alertstate="firing"}',
        "ALERTS",
        "count(ALERTS)",
        "sum by (alertname) (ALERTS{severity='page'})",
        "ALERTS_FOR_STATE",
        '{__name__="ALERTS",alertstate="firing"}',
        '{__name__=~"ALERTS.*"}',
        '{"ALERTS", alertstate="firing"}',
        "up == 0",
        "DCGM_FI_DEV_GPU_TEMP > 90",
        "a<=1",
        "absent(up)",
        "absent_over_time(up[5m])",
        "up unless on (instance) gpu",
        "up AND gpu",
    ],
)
def test_alerts_and_what_leaves_series_out_may_have_none(query: str) -> None:
    assert may_be_empty(query)


@pytest.mark.parametrize(
    "query",
    [
        "DCGM_FI_DEV_GPU_TEMP",
        'gpu_temp{job!="x",instance=~"a>b"}',
        "up == bool 0",
        "up > BOOL 90",
        "rate(errors_total[5m])",
        'label_replace(up, "a", "ALERTS > 1", "b", "(.*)")',
        "job:ALERTS:count",
        "MY_ALERTS",
        "bandwidth",
        "max(candidates)",
        "up # and what ALERTS > 1 says",
        "`ALERTS`",
        "",
    ],
)
def test_any_other_query_should_have_a_series(query: str) -> None:
    assert not may_be_empty(query)
