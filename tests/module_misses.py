"""What is known to be missed in modules, with the reason. Whoever mends one has to take it from the list."""

#: id of a report -> why it does not get its name
WILD: dict[str, str] = {}

#: start of the file's name -> why a right module is not called clean
RIGHT: dict[str, str] = {}

#: start of the file's name -> why a known variant is not noted
NOTES: dict[str, str] = {
    "m44": "forward(slots, inputs): which of the two asks is not told apart, so only its behaviour is judged",
}

#: (rule, style) -> why a mutant does not get its name, or its line
SINGLE: dict[tuple[str, str], str] = {}

#: (rules, style) -> why a pair does not get both names and lines
PAIRED: dict[tuple[tuple[str, str], str], str] = {}
