// Adds imported records: each is a relationship of its own, known by its record key, and stands for a captured one too.
// names: RELATION_TYPE, SOURCE_LABEL, SOURCE_KEY, TARGET_LABEL, TARGET_KEY
// params: rows
// returns: written
UNWIND $rows AS row
MATCH (a:SOURCE_LABEL {SOURCE_KEY: row.source})
MATCH (b:TARGET_LABEL {TARGET_KEY: row.target})
MERGE (a)-[r:RELATION_TYPE {recordKey: row.properties.recordKey}]->(b)
ON CREATE SET r += row.properties
WITH a, b, r
OPTIONAL MATCH (a)-[bare:RELATION_TYPE]->(b) WHERE bare.recordKey IS NULL
DELETE bare
RETURN count(r) AS written
