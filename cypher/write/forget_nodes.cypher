// Removes nodes by their keys, with their relationships, so that a replay of the journal can bring back what was recorded.
// names: BASE_LABEL, UNIQUE_KEY
// params: keys
// returns: written
UNWIND $keys AS key
MATCH (n:BASE_LABEL {UNIQUE_KEY: key})
DETACH DELETE n
RETURN count(*) AS written
