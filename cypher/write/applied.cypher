// Notes up to which position of a journal the graph holds its facts; the position never goes back.
// params: journal, jseq
// returns: jseq
MERGE (a:Applied {key: $journal})
ON CREATE SET a.name = null, a.jseq = $jseq
SET a.jseq = CASE WHEN a.jseq < $jseq THEN $jseq ELSE a.jseq END
RETURN a.jseq AS jseq
