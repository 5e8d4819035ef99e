"""One file per known variant of attention: right, but not the plain formula. Named in a note, never a finding."""
