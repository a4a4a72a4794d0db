// Adds relationships whose identity is (type, from, to); a record between the same ends already says as much.
// names: RELATION_TYPE, SOURCE_LABEL, SOURCE_KEY, TARGET_LABEL, TARGET_KEY
// params: rows
// returns: written
UNWIND $rows AS row
MATCH (a:SOURCE_LABEL {SOURCE_KEY: row.source})
MATCH (b:TARGET_LABEL {TARGET_KEY: row.target})
MERGE (a)-[r:RELATION_TYPE]->(b)
ON CREATE SET r += row.properties
RETURN count(DISTINCT row) AS written
