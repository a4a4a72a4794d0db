"""Records of the agent evidence protocol: their canonical form, chains, signatures, schemas and axes."""
