"""What this site gives a run, found by looking and trying: one finding a fact, with what to do about it."""
