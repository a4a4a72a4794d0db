// Which attempts have evidence: records or bundles.
// params:
// returns: run, attempt
MATCH (e:Record|EvidenceBundle)
RETURN DISTINCT e.run AS run, e.attempt AS attempt
ORDER BY run, attempt
