// Renews the statistics after a load; until then the planner may scan where it should seek.
// params:
// returns:
CALL db.prepareForReplanning()
