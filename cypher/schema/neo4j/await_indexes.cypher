// Waits until every index can be used.
// params: seconds
// returns:
CALL db.awaitIndexes($seconds)
