// Process groups of an attempt with their members.
// params: run, attempt
// returns: iri, backend, group, name, desc, ranks
MATCH (g:ProcessGroup {run: $run, attempt: $attempt})
RETURN g.iri AS iri, g.backend AS backend, g.group AS group, g.name AS name, g.desc AS desc, g.ranks AS ranks
ORDER BY iri
