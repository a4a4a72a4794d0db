// Actions of an imported training epoch: the mode that the file claims beside what is true of it.
// params: run, attempt
// returns: train_epoch, rank, seq, op, action_id, ordinal, claimed_mode, recorded_mode, shortfall, digest_in, digest_out, digest_kind, iri
// none: no file of another recorder was imported for this run
MATCH (a:LegacyAction {run: $run, attempt: $attempt})
RETURN a.train_epoch AS train_epoch, a.rank AS rank, a.seq AS seq, a.op AS op, a.action_id AS action_id,
       a.ordinal AS ordinal, a.claimed_mode AS claimed_mode, a.recorded_mode AS recorded_mode,
       a.shortfall AS shortfall, a.digest_in AS digest_in, a.digest_out AS digest_out, a.digest_kind AS digest_kind,
       a.iri AS iri
ORDER BY train_epoch, rank, seq, action_id, ordinal, iri
