"""Who may look at whom: one file per visibility rule, and the algebra (& | ~)."""
