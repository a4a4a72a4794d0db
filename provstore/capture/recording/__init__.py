"""Recording of a live job: what each rank did, step by step, into one file a rank; fails open."""
