"""Typed questions to a store: targets, lineage, and the dumps of a run as the analysis wants them."""
