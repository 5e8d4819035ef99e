"""Attention by fused kernels, the path chosen from the structure of the mask.

paths.py          the table: which structure goes which way
planning.py       a mask becomes a plan, remembered
from_spans.py     visible keys as intervals, cut into rectangles, triangles and bands
from_blocks.py    anything else: hidden blocks are left out; occupancy.py finds them
pieces.py         what a plan is made of;  tiles.py: the mask of one piece
running.py        a plan carried out;  fused_kernel.py: one call of PyTorch's kernel
differentiable.py  the same for autograd and vmap;  compiled.py: for torch.compile
"""

from softlookup.fused.attending import attend, attend_with_lse
from softlookup.fused.explaining_paths import Path, explain_path

__all__ = ["Path", "attend", "attend_with_lse", "explain_path"]
