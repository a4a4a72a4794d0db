"""Content of actions as evidence: digests of tensors, lines of statistics, and which calls and chunks are kept."""
