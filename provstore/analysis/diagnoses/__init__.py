"""The rules, one a file: ``find(scene, earlier)`` returns a rule's findings, given those of the rules before it."""
