"""How each API spells a mask: one file per API, both directions. See ``spelling`` for how one is written.

>>> from softlookup.masks import causal
>>> convert(causal(), target="sdpa", q_len=4, k_len=4)
{'is_causal': True}
"""

from softlookup.conventions.converting import convert
from softlookup.conventions.discover import convention_names, conventions, find_convention
from softlookup.conventions.identifying import Identification, identify

__all__ = ["Identification", "convention_names", "conventions", "convert", "find_convention", "identify"]
