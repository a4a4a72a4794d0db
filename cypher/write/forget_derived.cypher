// Removes the derived relationships of one type and one scope, so that newly derived ones replace them.
// names: RELATION_TYPE
// params: scope
// returns: removed
MATCH ()-[r:RELATION_TYPE {scope: $scope}]->()
DELETE r
RETURN count(r) AS removed
