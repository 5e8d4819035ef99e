"""What raises an alarm in a running model: one file a rule, found by its name.

An alarm file is named like a rule, ``sl903_scores_exploding.py``; its docstring is the page. It defines

    judge(record, past, limits) -> iterator of ``Raised``: what this call shows, in the light of earlier ones
"""
