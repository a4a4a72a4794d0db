// How many nodes does the store hold, by their labels?
// params:
// returns: labels, nodes
// order: none, the labels of a node come in no set order; whoever shows them sorts
MATCH (n)
RETURN labels(n) AS labels, count(n) AS nodes
