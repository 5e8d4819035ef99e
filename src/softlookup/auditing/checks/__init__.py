"""The questions of an audit: one file each, found by its name.

A file defines

- a docstring: one line that says what must hold, then how it is asked;
- ``CODES``: the rules that it can name;
- ``applies(subject) -> str``: "" where the question makes sense for this model, else the reason why not;
- ``run(subject) -> Iterator[Found | Noted]``: asks, and yields what is wrong (``found``) and what is worth
  knowing;
- ``AFTER`` where its answer only repeats what another check found: names of checks, which run before it. When
  one of them found something, this one is not asked.

What a model is asked is a ``Question``; two ways to the same answer are two ``Side``; ``difference`` says
whether they agree within the rounding that was measured for this model, and ``found`` looks for the first
layer that does not.
"""
