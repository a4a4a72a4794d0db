// Up to which position of each journal does the graph hold its facts?
// params:
// returns: journal, jseq
MATCH (a:Applied)
RETURN a.key AS journal, a.jseq AS jseq
ORDER BY journal
