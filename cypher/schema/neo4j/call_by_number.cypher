// Finds a call by its number.
// params:
// returns:
CREATE INDEX IF NOT EXISTS FOR (c:Call) ON (c.run, c.attempt, c.rank, c.seq)
