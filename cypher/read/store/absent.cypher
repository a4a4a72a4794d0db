// Which of these keys have no node?
// names: BASE_LABEL, UNIQUE_KEY
// params: keys
// returns: key
UNWIND $keys AS key
OPTIONAL MATCH (n:BASE_LABEL {UNIQUE_KEY: key})
WITH key, n WHERE n IS NULL
RETURN key
ORDER BY key
