"""One file per known variant of attention: right, but not the plain formula. A note, never a finding."""
