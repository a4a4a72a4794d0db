"""Evidence: keys, envelopes, trees, checkpoints and the check of signed bytes; fails closed."""
