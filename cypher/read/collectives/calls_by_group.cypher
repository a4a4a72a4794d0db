// How many calls of each operation every process group saw, and from how many ranks.
// params: run, attempt
// returns: backend, group, op, channel, calls, ranks, first_seq, last_seq
MATCH (c:Call {run: $run, attempt: $attempt})
WITH c, coalesce(c.signature, c.captured) AS signature
MATCH (s:Signature {key: signature})
RETURN s.backend AS backend, s.group AS group, s.op AS op, s.channel AS channel, count(c) AS calls,
       count(DISTINCT c.rank) AS ranks, min(c.seq) AS first_seq, max(c.seq) AS last_seq
ORDER BY backend, group, op, channel
