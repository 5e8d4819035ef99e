"""What is known to be missed in modules, with the reason. Whoever mends one has to take it from the list."""

import pytest

#: id of a report -> why it does not get its name, or its line
WILD: dict[str, str] = {
    "b059": "named path-mismatch at the test where the paths part, not where the causal mask is forgotten",
    "b084": "its cache lives inside the module: a sequence of calls would have to be asked",
    "b149": "what the constructor was given for bias cannot be seen on the built module",
}

#: start of the file's name -> why a right module is not called clean
RIGHT: dict[str, str] = {}

#: start of the file's name -> why a known variant is not noted
NOTES: dict[str, str] = {
    "m44": "forward(slots, inputs): which of the two asks is not told apart, so only its behaviour is judged",
}

_LINE = "named, with another line than the one where the step stands"

#: (rule, style) -> why a mutant does not get its name, or its line
SINGLE: dict[tuple[str, str], str] = {
    ("scale-hits-bias", "mha_like"): "its float mask is only asked beside the key padding, which is boolean",
    ("batch-neighbours-leak", "alibi_causal"): "the norm over samples is 0/0 on one-hot tokens",
}

#: (rules, style) -> why a pair does not get both names and lines
PAIRED: dict[tuple[tuple[str, str], str], str] = {}


def listed(known, key, *case):
    """Return the case as a parameter, which must fail where its key is listed."""
    marks = pytest.mark.xfail(strict=True, reason=known[key]) if key in known else ()
    return pytest.param(*case, marks=marks, id=key if isinstance(key, str) else None)
