"""Faults that show in a whole model only, one file each, found by name: a page, and ``plant`` for tests.

``plant(model)`` plants the fault in a Llama of transformers while a block runs.
"""
