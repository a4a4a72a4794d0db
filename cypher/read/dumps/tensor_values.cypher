// Which values of an attempt were finite.
// params: run, attempt
// returns: iri, rank, name, seq, side, is_finite, nan_count, inf_count
MATCH (v:TensorValues {run: $run, attempt: $attempt})
RETURN v.iri AS iri, v.rank AS rank, v.name AS name, v.seq AS seq, v.side AS side, v.is_finite AS is_finite, v.nan_count AS nan_count,
       v.inf_count AS inf_count
ORDER BY iri
