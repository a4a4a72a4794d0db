// Which findings of an attempt the graph holds: those of saved diagnoses, and what was seen beside the job.
// params: run, attempt
// returns: iri, code, confidence, summary, ranks, group, op, seq, kind, extra
// none: no diagnosis of this attempt was saved, and nothing was seen beside the job
MATCH (f:Finding|ExternalSignal {run: $run, attempt: $attempt})
WHERE f.code IS NOT NULL
RETURN f.iri AS iri, f.code AS code, f.confidence AS confidence, f.summary AS summary,
       coalesce(f.culprits, f.ranks) AS ranks, f.group AS group, f.op AS op, f.seq AS seq, f.kind AS kind,
       f.extra AS extra
ORDER BY code, iri
