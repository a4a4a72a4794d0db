// Finds the derived relationships of one scope, to replace them.
// names: RELATION_TYPE
// params:
// returns:
CREATE INDEX IF NOT EXISTS FOR ()-[r:RELATION_TYPE]-() ON (r.scope)
