"""8.4 Find it: the newest tokens have forgotten.

While a model writes, the keys and values of earlier tokens wait in a cache: the new tokens ask (T_q of
them), and all tokens answer (T_k of them, the new ones last). Without a cache this code is right, and
all tests passed. Say which rule it breaks (`softlookup rules` lists them), then mend it.
"""

import math

import torch

BUG = ""  # the name of the rule, e.g. "window-off-by-one"


def causal_attention(q, k, v):
    """Return the output (B, H, T_q, d_v): each query looks at its own key and all before it.

    q: (B, H, T_q, d_head), the newest tokens
    k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v), the cached tokens and the newest ones; T_k is at least T_q
    """
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 6, 4).unbind(0)
    at_once = causal_attention(q, k, v)
    for new in (6, 2, 1):
        apart = (causal_attention(q[:, :, -new:], k, v) - at_once[:, :, -new:]).abs().max().item()
        print(f"the last {new} of 6 tokens, the others cached: at most {apart:.4f} from all at once")
