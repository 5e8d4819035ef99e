"""Whole models asked a handful of questions that attention must answer in one way.

``audit`` asks them all. One file in ``checks/`` is one question; ``checks/__init__.py`` says what such a file
defines.
"""

from softlookup.auditing.running import audit

__all__ = ["audit"]
