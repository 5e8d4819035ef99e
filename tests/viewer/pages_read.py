"""A page of a view, read back in Python as the browser reads it."""

import json
import re

import torch

from softlookup.viewer.packing import differences_from, unpacked_bytes, weights_from


def facts_of(html):
    return json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', html, re.S)[1])


def packed_of(html, name):
    return re.search(rf'id="packed-{re.escape(name)}">([^<]*)</script>', html)[1]


def map_of(html, said, head, gaps=False):
    """[rows, columns] of what a page holds of a head; said: the facts of its maps."""
    codes = unpacked_bytes(packed_of(html, f"{said['id']}-{head}")).reshape(said["shape"])
    return (differences_from if gaps else weights_from)(codes, torch.tensor(said["steps"][head]))


def mask_of(html, said, shape):
    """Bool [heads, rows, columns]: what may be seen at all."""
    return unpacked_bytes(packed_of(html, said["id"])).reshape(said["heads"], *shape) > 0
