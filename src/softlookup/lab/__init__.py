"""The lab: a local page where maps are seen and experiments done live. ``softlookup lab MODEL`` opens it."""
