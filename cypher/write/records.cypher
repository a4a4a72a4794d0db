// Adds relationships that are imported records: their identity is the record key, so two equal records stay two.
// names: RELATION_TYPE, SOURCE_LABEL, SOURCE_KEY, TARGET_LABEL, TARGET_KEY
// params: rows
// returns: written
UNWIND $rows AS row
MATCH (a:SOURCE_LABEL {SOURCE_KEY: row.source})
MATCH (b:TARGET_LABEL {TARGET_KEY: row.target})
MERGE (a)-[r:RELATION_TYPE {recordKey: row.properties.recordKey}]->(b)
ON CREATE SET r += row.properties
RETURN count(r) AS written
