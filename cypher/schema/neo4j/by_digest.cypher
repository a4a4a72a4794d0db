// Finds the file with a digest.
// params:
// returns:
CREATE INDEX IF NOT EXISTS FOR (d:Dump) ON (d.sha256)
