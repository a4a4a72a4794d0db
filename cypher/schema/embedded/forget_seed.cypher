// Empties a new embedded graph of the nodes from which the engine learned each label's key.
// params:
// returns:
MATCH (n) DELETE n
