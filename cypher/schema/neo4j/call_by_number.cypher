// Finds a call by its number.
// params:
// returns:
CREATE INDEX IF NOT EXISTS FOR (c:Call) ON (c.run, c.rank, c.seq)
