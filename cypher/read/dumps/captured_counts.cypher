// How many calls of each process group a live recording saw on each rank, and how many the group itself had counted.
// params: run, attempt
// returns: rank, backend, group, calls, counted
MATCH (c:Call {run: $run, attempt: $attempt})
WHERE c.captured IS NOT NULL AND c.op_id IS NOT NULL
MATCH (s:Signature {key: c.captured})
RETURN c.rank AS rank, s.backend AS backend, s.group AS group, count(c) AS calls, max(c.op_id) AS counted
ORDER BY rank, backend, group
