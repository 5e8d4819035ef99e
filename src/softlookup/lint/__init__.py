"""Known traps, read in the text of files that are never imported. No torch: the ast module is enough."""
