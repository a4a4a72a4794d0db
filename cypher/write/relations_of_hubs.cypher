// Adds relationships from nodes with very many: the embedded engine's MERGE looks through all that begin at the source.
// names: RELATION_TYPE, SOURCE_LABEL, SOURCE_KEY, TARGET_LABEL, TARGET_KEY
// params: rows
// returns: written
UNWIND $rows AS row
MATCH (b:TARGET_LABEL {TARGET_KEY: row.target})
MATCH (a:SOURCE_LABEL {SOURCE_KEY: row.source})
WHERE NOT (b)<-[:RELATION_TYPE]-(a)
CREATE (a)-[r:RELATION_TYPE]->(b)
SET r += row.properties
RETURN count(r) AS written
