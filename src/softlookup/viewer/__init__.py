"""Maps as one page that needs nothing else, or as pictures."""

from softlookup.viewer.viewing import View, view

__all__ = ["View", "view"]
