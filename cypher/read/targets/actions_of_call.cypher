// The recorded actions of some ranks in the calls with one number, in whatever process group.
// params: run, attempt, seq, ranks
// returns: action_id, rank, op, group, seq, step, train_epoch, iri
MATCH (a:Action {run: $run, attempt: $attempt, seq: $seq})
WHERE a.rank IN $ranks
RETURN a.action_id AS action_id, a.rank AS rank, a.op AS op, a.group AS group, a.seq AS seq, a.step AS step,
       a.train_epoch AS train_epoch, a.iri AS iri
ORDER BY rank, train_epoch, action_id
