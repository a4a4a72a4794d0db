// Removes every relationship of some types between given ends, so that a replay of the journal can bring back what was recorded.
// names: SOURCE_LABEL, SOURCE_KEY, TARGET_LABEL, TARGET_KEY
// params: rows
// returns: written
UNWIND $rows AS row
MATCH (a:SOURCE_LABEL {SOURCE_KEY: row.source})-[r]->(b:TARGET_LABEL {TARGET_KEY: row.target})
WHERE type(r) = row.relation
DELETE r
RETURN count(*) AS written
