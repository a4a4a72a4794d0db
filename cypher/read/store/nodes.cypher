// All nodes with their labels and properties.
// params:
// returns: labels, properties
// order: none, whoever compares stores sorts the canonical lines
MATCH (n)
RETURN labels(n) AS labels, properties(n) AS properties
