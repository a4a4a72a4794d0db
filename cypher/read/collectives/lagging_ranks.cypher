// Ranks behind the highest number that any member of a process group reached; members without any call come first.
// params: run, attempt
// returns: backend, group, name, rank, last_seq, highest_seq, behind, is_silent
MATCH (c:Call {run: $run, attempt: $attempt})
WHERE c.seq IS NOT NULL
WITH c, coalesce(c.signature, c.captured) AS signature
MATCH (s:Signature {key: signature})
WITH s.backend AS backend, s.group AS group, c.rank AS rank, max(c.seq) AS last_seq
WITH backend, group, max(last_seq) AS highest_seq, collect({rank: rank, last_seq: last_seq}) AS seen
MATCH (g:ProcessGroup {run: $run, attempt: $attempt})
WHERE g.group = group AND g.backend = backend
UNWIND coalesce(g.ranks, [member IN seen | member.rank]) AS rank
WITH backend, group, coalesce(g.desc + ' (' + g.name + ')', g.name) AS name, highest_seq, rank,
     [member IN seen WHERE member.rank = rank | member.last_seq] AS reached
WITH backend, group, name, highest_seq, rank, CASE WHEN size(reached) = 0 THEN null ELSE reached[0] END AS last_seq
WHERE last_seq IS NULL OR last_seq < highest_seq
RETURN backend, group, name, rank, last_seq, highest_seq, highest_seq - last_seq AS behind,
       last_seq IS NULL AS is_silent
ORDER BY is_silent DESC, behind DESC, backend, group, rank
