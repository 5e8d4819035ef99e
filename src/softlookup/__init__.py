"""softlookup: attention you can read, and a checker that names the bug in anybody's attention.

The public door. Names load on first use (PEP 562), so importing this package imports neither torch nor
anything else of ours.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from softlookup.attention import scaled_dot_product_attention as scaled_dot_product_attention
    from softlookup.auditing import audit as audit
    from softlookup.catalog import explain as explain
    from softlookup.checker.diagnose import check as check
    from softlookup.conventions import convert as convert
    from softlookup.conventions import identify as identify
    from softlookup.fused import attend as attend
    from softlookup.live.multihead_drop_in import AttendMultiheadAttention as AttendMultiheadAttention
    from softlookup.live.multihead_drop_in import use_attend as use_attend
    from softlookup.live.stored import read_trace as read_trace
    from softlookup.live.transformers_attention import register_attention as register_attention
    from softlookup.live.watching import watch as watch
    from softlookup.masks import Mask as Mask
    from softlookup.masks import make_causal_allowed_mask as make_causal_allowed_mask
    from softlookup.masks import make_padding_allowed_mask as make_padding_allowed_mask
    from softlookup.multihead import CrossAttention as CrossAttention
    from softlookup.multihead import MultiHeadAttention as MultiHeadAttention
    from softlookup.statistics import Statistics as Statistics
    from softlookup.statistics import observe as observe
    from softlookup.statistics import weights_of as weights_of
    from softlookup.terms import Contract as Contract
    from softlookup.terms import Diagnosis as Diagnosis
    from softlookup.terms import Finding as Finding
    from softlookup.terms import SoftlookupError as SoftlookupError
    from softlookup.testing.visibility import assert_allowed as assert_allowed
    from softlookup.testing.visibility import assert_causal as assert_causal
    from softlookup.testing.visibility import assert_hidden as assert_hidden
    from softlookup.testing.visibility import assert_hides_padding as assert_hides_padding
    from softlookup.testing.visibility import assert_row as assert_row
    from softlookup.training_masks import make_training_masks as make_training_masks
    from softlookup.viewer import view as view

_HOME = {
    "scaled_dot_product_attention": "attention",
    "audit": "auditing",
    "explain": "catalog",
    "check": "checker.diagnose",
    "convert": "conventions",
    "identify": "conventions",
    "attend": "fused",
    "read_trace": "live.stored",
    "watch": "live.watching",
    "AttendMultiheadAttention": "live.multihead_drop_in",
    "use_attend": "live.multihead_drop_in",
    "register_attention": "live.transformers_attention",
    "Mask": "masks",
    "make_causal_allowed_mask": "masks",
    "make_padding_allowed_mask": "masks",
    "CrossAttention": "multihead",
    "MultiHeadAttention": "multihead",
    "Statistics": "statistics",
    "observe": "statistics",
    "weights_of": "statistics",
    "Contract": "terms",
    "Diagnosis": "terms",
    "Finding": "terms",
    "SoftlookupError": "terms",
    "assert_allowed": "testing.visibility",
    "assert_causal": "testing.visibility",
    "assert_hidden": "testing.visibility",
    "assert_hides_padding": "testing.visibility",
    "assert_row": "testing.visibility",
    "make_training_masks": "training_masks",
    "view": "viewer",
}
__all__ = [
    "AttendMultiheadAttention",
    "Contract",
    "CrossAttention",
    "Diagnosis",
    "Finding",
    "Mask",
    "MultiHeadAttention",
    "SoftlookupError",
    "Statistics",
    "assert_allowed",
    "assert_causal",
    "assert_hidden",
    "assert_hides_padding",
    "assert_row",
    "attend",
    "audit",
    "check",
    "convert",
    "explain",
    "identify",
    "make_causal_allowed_mask",
    "make_padding_allowed_mask",
    "make_training_masks",
    "observe",
    "read_trace",
    "register_attention",
    "scaled_dot_product_attention",
    "use_attend",
    "view",
    "watch",
    "weights_of",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module 'softlookup' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "masks"]
