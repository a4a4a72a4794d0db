// Every base label has one key.
// names: BASE_LABEL, UNIQUE_KEY
// params:
// returns:
CREATE CONSTRAINT IF NOT EXISTS FOR (n:BASE_LABEL) REQUIRE n.UNIQUE_KEY IS UNIQUE
