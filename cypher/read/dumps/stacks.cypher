// Stacks by key, innermost frame first.
// params: keys
// returns: key, frames, user_frame
UNWIND $keys AS key
MATCH (k:Stack {key: key})
RETURN k.key AS key, k.frames AS frames, k.user_frame AS user_frame
ORDER BY key
