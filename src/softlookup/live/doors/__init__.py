"""The ways by which attention is computed: one file a door, found by its name.

A door file defines

    PLACES: where the function lives, as "module:attribute"; modules that nobody imported are left alone
    read(args, kwargs, output, around) -> Problem, or None for what is no attention
"""
