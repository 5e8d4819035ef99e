"""Attention inside a running model: what it does, step by step, and what goes wrong there."""
