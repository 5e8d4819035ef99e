"""What is known to be missed in modules, with the reason. Whoever mends one has to take it from the list."""

import pytest

#: id of a report -> why it does not get its name, or its line
WILD: dict[str, str] = {}

#: start of the file's name -> why a right module is not called clean
RIGHT: dict[str, str] = {}

#: start of the file's name -> why a known variant is not noted
NOTES: dict[str, str] = {}

#: (rule, style) -> why a mutant does not get its name, or its line
SINGLE: dict[tuple[str, str], str] = {}

#: (rules, style) -> why a pair does not get both names and lines
PAIRED: dict[tuple[tuple[str, str], str], str] = {}


def listed(known, key, *case, marks=()):
    """Return the case as a parameter, which must fail where its key is listed."""
    if key in known:
        marks = (*marks, pytest.mark.xfail(strict=True, reason=known[key]))
    return pytest.param(*case, marks=marks, id=key if isinstance(key, str) else None)
