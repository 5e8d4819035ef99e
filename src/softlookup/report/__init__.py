"""How a diagnosis is shown: in the terminal, as JSON, as the page of a rule. Nothing here decides."""
