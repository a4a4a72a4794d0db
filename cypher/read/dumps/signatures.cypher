// What calls asked for, by key.
// params: keys
// returns: key, raw_name, library, op, backend, group, channel, input_sizes, output_sizes, input_dtypes, output_dtypes, timeout_ms
UNWIND $keys AS key
MATCH (s:Signature {key: key})
RETURN s.key AS key, s.raw_name AS raw_name, s.library AS library, s.op AS op, s.backend AS backend, s.group AS group, s.channel AS channel,
       s.input_sizes AS input_sizes, s.output_sizes AS output_sizes, s.input_dtypes AS input_dtypes, s.output_dtypes AS output_dtypes,
       s.timeout_ms AS timeout_ms
ORDER BY key
