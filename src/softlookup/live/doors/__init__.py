"""The ways by which attention is computed: one file a door, found by its name.

A door file defines

    PLACES: where the function lives, as "module:attribute"; modules that nobody imported are left alone
    read(args, kwargs, output, around) -> Problem, or None for what is no attention

and, where some rows of a call can be computed in another way,

    products(args, kwargs, around) -> Products, of calls that multiply queries with keys
    written(args, kwargs, output, around) -> Written, of a softmax in attention that a model writes by hand
"""
