// Instances at which ranks asked for different things: the operation, shapes or element types differ between members.
// Unequal shapes are normal for all_to_all, gather, scatter and the _v forms; the query lists what differs, the diagnosis judges it.
// params: run, attempt
// returns: backend, group, seq, op, input_sizes, output_sizes, input_dtypes, ranks, instance
MATCH (a:Collective {run: $run, attempt: $attempt})-[:USED]->(c:Call)
MATCH (s:Signature {key: c.signature})
WITH a, s, c.rank AS rank
ORDER BY rank
WITH a, s.op AS op, s.input_sizes AS input_sizes, s.output_sizes AS output_sizes, s.input_dtypes AS input_dtypes,
     collect(rank) AS ranks
WITH a, collect({op: op, input_sizes: input_sizes, output_sizes: output_sizes, input_dtypes: input_dtypes, ranks: ranks}) AS asked
WHERE size(asked) > 1
UNWIND asked AS one
RETURN a.backend AS backend, a.group AS group, a.seq AS seq, one.op AS op, one.input_sizes AS input_sizes,
       one.output_sizes AS output_sizes, one.input_dtypes AS input_dtypes, one.ranks AS ranks, a.iri AS instance
ORDER BY backend, group, seq, op, input_sizes, output_sizes, input_dtypes, instance
