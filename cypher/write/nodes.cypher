// Adds nodes of one kind and what is known about them; a value that is there stays, only `declared` may become true.
// names: BASE_LABEL, UNIQUE_KEY, LABELS
// params: rows
// returns: written
UNWIND $rows AS row
MERGE (n:BASE_LABEL {UNIQUE_KEY: row.key})
ON CREATE SET n.name = null
WITH n, row, properties(n) AS known
SET n:LABELS
SET n += row.properties
SET n += known
SET n.declared = CASE WHEN row.properties.declared = true THEN true ELSE n.declared END
RETURN count(n) AS written
