"""Files of agent evidence in which no record is: nothing comes of them, and that is said."""

from __future__ import annotations

import json
from pathlib import Path

import provstore


def test_a_bundle_without_records_is_refused_and_not_a_success_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps({"schema_version": "aep-bundle/v0.1", "manifest": {"records": []}, "records": []}))

    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        report = store.ingest(path)

        assert [(file.status, file.reason) for file in report.files] == [("refused", "aep-bundle: holds no record")]
        assert report.facts == 0
