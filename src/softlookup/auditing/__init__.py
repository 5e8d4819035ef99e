"""Whole models asked a handful of questions that attention must answer in one way."""
