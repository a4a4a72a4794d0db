// Elements by their ids, with what a trace shows of them.
// params: iris
// returns: iri, labels, run, attempt, rank, seq, side, group, backend, op_id, p2p_seq, signature, stack
UNWIND $iris AS iri
MATCH (e:Element {iri: iri})
RETURN e.iri AS iri, labels(e) AS labels, e.run AS run, e.attempt AS attempt, e.rank AS rank, e.seq AS seq, e.side AS side,
       e.group AS group, e.backend AS backend, e.op_id AS op_id, e.p2p_seq AS p2p_seq, coalesce(e.signature, e.captured) AS signature, e.stack AS stack
ORDER BY iri
