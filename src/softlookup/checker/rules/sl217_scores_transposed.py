"""K Q^T is used as Q K^T: each query is weighed by how well the keys' questions match its own key.

Missed because: for T_q == T_k the shapes agree, and with q and k from one input the scores look alike.

Training: queries and keys swap their roles, which projections can learn; under a mask they cannot.

Fix: put queries on the rows: `q @ k.transpose(-2, -1)`.

Seen in: none of the collected reports; harmless look-alikes: https://github.com/karpathy/llm.c/pull/531
"""

from torch import Tensor

from softlookup.attention import score as dot_products
from softlookup.terms import Case


def score(q: Tensor, k: Tensor, case: Case) -> Tensor:
    return dot_products(q, k, case).transpose(-2, -1)
