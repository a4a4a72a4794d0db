"""Record the dumps that ship in ``provstore/samples``: three small gloo jobs, dumped by the capture helper.

    python scripts/make_samples.py [FOLDER]

The training script is ``provstore/capture/live_train.py``. So that no path, host or process of the recording machine
gets into the files, the workers give their code neutral names before it runs: the script is compiled as
``/workspace/train.py``, torch's modules as files of ``/opt/venv``; nothing is edited afterwards.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from provstore.capture.live import TRAINING_SCRIPT, Truth, run_job

SAMPLES = {"healthy": ("none", 0), "hang": ("stuck", 7), "mismatch": ("mismatch-op", 8)}
"""Sample → (fault, seed). The seeds put the hang on rank 2 and the mismatch on rank 1."""

NEUTRAL_HOME = "/opt/venv/lib/python3.11/site-packages"

WORKER = f"""
import importlib.machinery, importlib.util, json, os, socket, sys, types
home = os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin))
def renamed(code):
    inner = tuple(renamed(part) if isinstance(part, types.CodeType) else part for part in code.co_consts)
    return code.replace(co_filename=code.co_filename.replace(home, {NEUTRAL_HOME!r}), co_consts=inner)
plain = importlib.machinery.SourceFileLoader.get_code
def get_code(loader, name):
    code = plain(loader, name)
    return renamed(code) if name.startswith("torch.distributed") else code
importlib.machinery.SourceFileLoader.get_code = get_code
plan = json.loads(sys.argv[2])
socket.gethostname = lambda: "node01"
os.getpid = lambda: 4000 + plan["rank"]
source = open({str(TRAINING_SCRIPT)!r}).read()
sys.argv = ["/workspace/train.py", json.dumps(plan | {{"run": sys.argv[1]}})]
exec(compile(source, "/workspace/train.py", "exec"), {{"__name__": "__main__"}})
"""


def main() -> None:
    """Record every sample into a new folder and put it in the place of the shipped one."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "provstore" / "samples"
    for name, (fault, seed) in SAMPLES.items():
        with tempfile.TemporaryDirectory() as scratch:
            truth = record(Path(scratch) / name, name, fault, seed)
            shutil.rmtree(target / name, ignore_errors=True)
            shutil.copytree(Path(scratch) / name, target / name)
        print(f"{name}: fault {truth.fault.name}, rank {truth.rank}, step {truth.step}")


def record(folder: Path, name: str, fault: str, seed: int) -> Truth:
    """Run one job and make sure that what it left names nothing of this machine."""
    result = run_job(folder, fault, timeout=120.0, seed=seed, launcher=(sys.executable, "-P", "-c", WORKER, name))
    sidecars = sorted(folder.glob("fr_meta_rank_*.json"))
    if len(sidecars) != result.ranks:
        raise SystemExit(f"{name}: {len(sidecars)} of {result.ranks} ranks left a sidecar\n{result.log}")
    for path in folder.iterdir():
        for private in (sys.prefix, str(Path.home()), str(TRAINING_SCRIPT.parents[2]), str(folder.parent)):
            if len(private) > 1 and private.encode() in path.read_bytes():
                raise SystemExit(f"{path.name}: names {private}")
    for path in sidecars:
        if json.loads(path.read_text())["errors"]:
            raise SystemExit(f"{path.name}: has errors")
    return result.truth


if __name__ == "__main__":
    main()
