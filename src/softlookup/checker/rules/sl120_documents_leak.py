"""Packed documents attend to each other: a query sees keys of another document in the same row.

Missed because: packing is done by the data loader; the attention code sees one long sequence and runs.

Training: each document conditions on its random neighbours; position and context are noise.

Ask: which tensor says where one document ends and the next begins, and which line compares it?

Fix: hide keys of other documents: `document_ids[:, :, None] == document_ids[:, None, :]`.

Seen in: https://github.com/huggingface/transformers/pull/46634,
https://github.com/unslothai/unsloth/issues/1207, https://github.com/alex-hh/profam/issues/495
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("dropped", "picked", "visible", "hide", "normalize")


def visible(case: Case) -> Tensor | None:
    return all_rules(case.but(document_ids=None))
