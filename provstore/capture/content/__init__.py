"""Content of live tensors: finite or not, digests, statistics and snapshots, and what they may cost."""
