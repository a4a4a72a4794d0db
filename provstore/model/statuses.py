"""What became of a file that was given."""

from __future__ import annotations

NEW, KNOWN, REFUSED, SKIPPED = "new", "known", "refused", "skipped"
