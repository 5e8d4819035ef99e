"""Which tokens stand beside the maps of a layer, and what the measures may know of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from softlookup.terms import SoftlookupError
from softlookup.viewer.head_measures import LayerTokens, is_separator
from softlookup.viewer.map_layers import MapLayer
from softlookup.viewer.token_text import numbered, shown, texts_of


@dataclass(eq=False)
class RunTokens:
    """The tokens of a run: of its one sequence, or of a target (queries) and a source (keys).

    queries: of self-attention, and of the target in cross-attention;  keys: of the source; None: the same
    """

    queries: list[str] | None = None
    keys: list[str] | None = None
    lists: list[list[str]] = field(default_factory=list)  # what the page holds

    @classmethod
    def of(cls, tokens: Any) -> RunTokens:
        """Return the tokens as users give them: None, a list of str, or a pair of such lists."""
        if tokens is None:
            return cls()
        if isinstance(tokens, tuple) and len(tokens) == 2 and not any(isinstance(it, str) for it in tokens):
            return cls(
                texts_of(tokens[0], "tokens of the queries"), texts_of(tokens[1], "tokens of the keys")
            )
        return cls(texts_of(tokens, "tokens"))

    def beside_those_of(self, other: RunTokens) -> RunTokens:
        """Return tokens to show of two runs: both of them where they differ."""

        def joined(ours: list[str] | None, theirs: list[str] | None) -> list[str] | None:
            if ours is None or theirs is None or len(ours) != len(theirs):
                return ours
            return [a if a == b else f"{a} → {b}" for a, b in zip(ours, theirs, strict=True)]

        return RunTokens(joined(self.queries, other.queries), joined(self.keys, other.keys))

    def known(self, layer: MapLayer) -> LayerTokens:
        """Return what the measures of a layer know of its tokens.

        Raises: SoftlookupError where no list is as long as the layer.
        """
        keys = self._keys(layer)
        if keys is None:
            return LayerTokens(offset_of(layer))
        return LayerTokens(
            offset_of(layer),
            torch.tensor(numbered(keys)),
            torch.tensor([is_separator(it) for it in keys]),
        )

    def beside(self, layer: MapLayer) -> dict[str, Any]:
        """Return where the page finds the tokens of a layer.

        Raises: as ``known``.
        """
        keys = self._keys(layer)
        queries = self._queries(layer, keys)
        return {"queries": self._held(queries), "keys": self._held(keys), "offset": offset_of(layer)}

    def _keys(self, layer: MapLayer) -> list[str] | None:
        given = [it for it in (self.queries, self.keys) if it is not None]
        # In a pair, the source comes first for cross-attention and for the layers of an encoder.
        if layer.kind == "cross" or "encoder" in layer.name.split("."):
            given.reverse()
        if not given:
            return None
        for it in given:
            if len(it) == layer.k_len:
                return it
        if layer.kind == "cross" and len(given) == 1:
            return None  # a list alone may be that of the queries
        raise self._refused(layer, "keys", layer.k_len)

    def _queries(self, layer: MapLayer, keys: list[str] | None) -> list[str] | None:
        if layer.kind != "cross":
            return None if keys is None else keys[layer.k_len - layer.q_len :]
        if self.queries is None:
            return None
        if len(self.queries) != layer.q_len:
            raise self._refused(layer, "queries", layer.q_len)
        return self.queries

    def _refused(self, layer: MapLayer, whose: str, length: int) -> SoftlookupError:
        lengths = [len(it) for it in (self.queries, self.keys) if it is not None]
        return SoftlookupError(
            f"view: the tokens do not fit the {whose} of layer {layer.name or '(the model)'}.",
            expected=f"{length} tokens",
            got=" and ".join(map(str, lengths)),
            hint="cross-attention takes a pair: tokens=(target tokens, source tokens)",
        )

    def _held(self, tokens: list[str] | None) -> int:
        """Return the place of a list in the page, -1 for none."""
        if tokens is None:
            return -1
        texts = [shown(it) for it in tokens]
        if texts not in self.lists:
            self.lists.append(texts)
        return self.lists.index(texts)


def offset_of(layer: MapLayer) -> int | None:
    """Return which key is query 0's own: the later ones, as a cache has them; None: of another sequence."""
    return None if layer.kind == "cross" else layer.k_len - layer.q_len
