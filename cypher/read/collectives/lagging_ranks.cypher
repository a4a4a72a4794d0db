// Ranks whose last number in a process group is below the highest that any member reached, the most behind first.
// params: run, attempt
// returns: backend, group, rank, last_seq, highest_seq, behind
MATCH (c:Call {run: $run, attempt: $attempt})
WHERE c.seq IS NOT NULL
MATCH (s:Signature {key: c.signature})
WITH s.backend AS backend, s.group AS group, c.rank AS rank, max(c.seq) AS last_seq
WITH backend, group, max(last_seq) AS highest_seq, collect({rank: rank, last_seq: last_seq}) AS members
UNWIND members AS member
WITH backend, group, highest_seq, member.rank AS rank, member.last_seq AS last_seq
WHERE last_seq < highest_seq
RETURN backend, group, rank, last_seq, highest_seq, highest_seq - last_seq AS behind
ORDER BY behind DESC, backend, group, rank
