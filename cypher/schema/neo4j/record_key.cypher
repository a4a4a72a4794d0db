// An imported record is one relationship.
// names: RELATION_TYPE
// params:
// returns:
CREATE CONSTRAINT IF NOT EXISTS FOR ()-[r:RELATION_TYPE]-() REQUIRE r.recordKey IS UNIQUE
