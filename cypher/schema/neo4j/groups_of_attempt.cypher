// Finds the process groups of one attempt.
// params:
// returns:
CREATE INDEX IF NOT EXISTS FOR (g:ProcessGroup) ON (g.run, g.attempt)
