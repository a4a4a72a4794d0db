// Which indexes are there, and which of them belong to a constraint?
// params:
// returns: names, properties, is_constraint
SHOW INDEXES YIELD labelsOrTypes, properties, owningConstraint
RETURN labelsOrTypes AS names, properties, owningConstraint IS NOT NULL AS is_constraint
