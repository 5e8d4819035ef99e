"""The checker: target, adapt, probes, steps and rules, diagnose. Import ``check`` from ``softlookup``."""
