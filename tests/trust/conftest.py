"""Makes the fakes of the journal's tests, and this folder's own modules, importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "unit" / "journal")]
