"""What one pass over tiles adds up for each query, once its log-sum-exp is known: w = exp(score - lse).

    entropy            minus the sum of w log w
    masses of buckets  sums of w over the keys of a cell
    mean and variance  sums of w x and w x^2 over a cell, where x counts from its middle and stays small, so
                       that a variance of a few tokens survives at position 60,000 in float32

Rows in which that cannot be done (a visible NaN or inf, a lse whose sum was rounded away beside a fill like
-3e38) are rare, and are computed again one by one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.statistics.adding_up import Added, Cells
from softlookup.statistics.recovering import RowsOf, measure_rows, rows_allowed, scores_of_rows
from softlookup.statistics.rows import Rows
from softlookup.statistics.seen_keys import SeenKeys
from softlookup.statistics.tiling import Block, Tile, Tiling, of_heads
from softlookup.statistics.wanted import Wanted

_LEAST = -80.0  # exp of less is slow: no normal float32; and 0 * -inf would be NaN
_ALONE = 1 << 22  # entries of the rows that are measured again at a time
_TRUSTED = (0.5, 2.0)  # a sum of weights outside is no rounding: this lse is not that of the scores


class Measure:
    """The visitor that adds up; ``rows`` and ``pooled`` are there once all tiles were seen."""

    def __init__(self, tiling: Tiling, wanted: Wanted, cells: Cells, lse: Tensor) -> None:
        self.tiling, self.wanted, self.cells = tiling, wanted, cells
        visible = tiling.seen.num_visible().expand(lse.shape)
        empty = visible == 0
        self._some_empty = bool(empty.any())
        self.lse = (
            lse.masked_fill(empty, -math.inf) if self._some_empty else lse
        ).contiguous()  # [B, H, T_q]
        self.positions = tiling.seen.query_positions()
        self._ahead = int(self.positions[0]) - tiling.seen.shard.k_start if tiling.q_len else 0
        self._visible = visible.reshape(tiling.q.shape[:-1])  # [B * H_kv, group, T_q]
        self._all: dict[str, Tensor] = {}  # by field of Rows: [B * H_kv, group, T_q, ...]
        self._sums: dict[str, Tensor] = {}  # of the block at hand: [heads, group * queries, ...]
        self._of_group: list[dict[str, Tensor]] = []  # the same for each group of heads
        self._added: Added
        self._memory = lse.new_empty(0)
        self._over_cell = cells.sums(lse)  # [n, columns of a cell]
        query_buckets = math.ceil(tiling.q_len / wanted.query_bucket)
        self._pooled = lse.new_zeros(*self._visible.shape[:2], query_buckets, cells.all_buckets)
        self._forbidden: tuple[Block, slice, Tensor] | None = None
        self._look_at_norms(empty.reshape(self._visible.shape))

    def _look_at_norms(self, empty: Tensor) -> None:
        """Find out which heads hold an inf or NaN, and whether any score can be too low: |q k| <= |q| |k|."""
        of_q, of_k = self.tiling.norms()
        self._has_infinite = ~(of_q.sum(dim=(1, 2)) + of_k.sum(dim=1)).isfinite()  # [B * H_kv]
        self.too_low = True
        if of_q.numel() and of_k.numel() and not self.wanted.top_k and not self.tiling.seen.adds:
            depth = of_q * of_k.amax(dim=1)[:, None, None] + self.lse.view(of_q.shape)  # below 0, at most
            if self._some_empty:
                depth = depth.masked_fill(empty, 0.0)
            self.too_low = not bool(depth.amax() < -_LEAST)

    @property
    def hidden(self) -> float:
        """What stands in place of a hidden score."""
        return -math.inf if self.too_low else _LEAST

    def begin(self, block: Block) -> None:
        """See ``Visitor``."""
        rows = (block.heads.stop - block.heads.start, self.tiling.group * block.queries)
        cells = (block.columns.stop - block.columns.start) // self.cells.width
        zeros = self._over_cell.new_zeros
        names = ["self_mass", "first_mass"] + ["forbidden_mass"] * (self.wanted.rule is not None)
        sums = dict(zip(names, zeros(len(names), *rows), strict=True))
        room = self._room(2 * len(self._over_cell) + 1, *rows, cells)
        self._added = Added(room, self.cells, block.groups[0].stop)
        if self.wanted.exact_max:
            sums["max_score"] = zeros(rows) - math.inf
        if self.wanted.top_k:
            sums["top_weights"] = zeros(*rows, self.wanted.top_k) - math.inf
            sums["top_keys"] = torch.full_like(sums["top_weights"], -1, dtype=torch.int64)
        self._sums = sums
        self._of_group = [{name: it[group] for name, it in sums.items()} for group in block.groups]

    def _room(self, *shape: int) -> Tensor:
        """Return room in memory that all blocks share: new pages cost time."""
        entries = math.prod(shape)
        if len(self._memory) < entries:
            self._memory = self._memory.new_empty(entries)
        return self._memory[:entries].view(shape)

    def see(self, tile: Tile) -> None:
        """See ``Visitor``."""
        sums = self._of_group[tile.group]
        log_weights, weights, cells = tile.sheet
        if tile.group == 0:
            self._added.begin_step((tile.columns.stop - tile.columns.start) // self.cells.width)
        if self.wanted.top_k:
            self._keep_top(tile, sums["top_weights"], sums["top_keys"])
        if self.too_low:
            log_weights.clamp_min_(_LEAST)
        if self.wanted.exact_max:
            largest = sums["max_score"]
            torch.maximum(largest, log_weights.amax(dim=-1), out=largest)
        torch.exp(log_weights, out=weights)
        self._keep_single(tile, sums)
        self._added.add(tile.group, self._over_cell, cells, log_weights.mul_(weights))
        if self.wanted.rule is not None:
            self._keep_forbidden(tile, self.wanted.rule, sums["forbidden_mass"])
        if tile.group == len(self._of_group) - 1:
            self._added.end_step((tile.columns.start - tile.block.columns.start) // self.cells.width)

    def _keep_single(self, tile: Tile, mine: dict[str, Tensor]) -> None:
        """Note the weights on key 0 and on the key at each query's own position, where the tile has them."""
        block, columns, room = tile.block, tile.columns, tile.sheet.room
        if self.tiling.seen.shard.k_start == 0 and columns.start == 0:
            mine["first_mass"].copy_(room[..., 0])
        own = block.q_start + self._ahead + self.tiling.lead - columns.start  # the first query's own column
        width = columns.stop - columns.start
        if -block.queries < own < width:
            queries = slice(max(0, -own), min(block.queries, width - own))
            diagonal = tile.by_query(room).diagonal(own, dim1=2, dim2=3)  # [heads, group, those queries]
            tile.by_query(mine["self_mass"][..., None])[..., queries, 0] = diagonal

    def _keep_top(self, tile: Tile, top: Tensor, keys: Tensor) -> None:
        """Merge the largest log weights of the tile into those so far."""
        k = self.wanted.top_k
        found = tile.sheet.scores.topk(min(k, tile.sheet.scores.shape[-1]), dim=-1)
        theirs = found.indices + tile.columns.start - self.tiling.lead + self.tiling.seen.shard.k_start
        both, both_keys = torch.cat([top, found.values], dim=-1), torch.cat([keys, theirs], dim=-1)
        best = both.topk(k, dim=-1)
        top.copy_(best.values)
        keys.copy_(both_keys.gather(-1, best.indices))

    def _keep_forbidden(self, tile: Tile, rule: SeenKeys, mass: Tensor) -> None:
        """Add the weight on keys that the declared rule hides; it overwrites the scores."""
        if self._forbidden is None or self._forbidden[:2] != (tile.block, tile.columns):
            allowed = self.tiling.of_mask(rule.allowed, True, tile.block, tile.columns)
            assert allowed is not None
            self._forbidden = tile.block, tile.columns, (~allowed).to(mass.dtype)
        forbidden = of_heads(self._forbidden[2], tile.block.groups[tile.group], self.tiling.group)
        torch.mul(tile.by_query(tile.sheet.room), forbidden, out=tile.by_query(tile.sheet.scores))
        mass += tile.sheet.scores.sum(dim=-1)

    def end(self, block: Block) -> None:
        """See ``Visitor``."""
        self._added.reach(self._added.cells.shape[-1])
        values = self._values(block)
        self._measure_again(block, values)
        self._pool(block, values.pop("share"))
        for name, value in values.items():
            part = self._part(name, block, value)
            part.copy_(value.view(part.shape))

    def _part(self, name: str, block: Block, like: Tensor, *sizes: int) -> Tensor:
        """Return where a field of the block's rows is kept: [heads, group, queries, ...]."""
        if name not in self._all:
            self._all[name] = like.new_zeros(*self._visible.shape, *(sizes or like.shape[2:]))
        return self._all[name][block.heads, :, block.q_start : block.q_stop]

    def _values(self, block: Block) -> dict[str, Tensor]:
        """From sums to the fields of Rows, and the share of a weight, [heads, group * queries, ...]."""
        sums = self._sums
        lse, visible = (
            it[block.heads, :, block.q_start : block.q_stop].flatten(1)
            for it in (self.lse.view(self._visible.shape), self._visible)
        )
        row_sum = self._added.cells[0].sum(dim=-1)
        share = 1 / row_sum
        mean, variance = self._added.position(share)
        start = block.columns.start + self.tiling.seen.shard.k_start - self.tiling.lead
        values = {
            "lse": lse,
            "row_sum": row_sum,
            "entropy_nats": row_sum.log() - self._added.w_log_w * share,
            "key_mean": mean.add_(start),
            "key_variance": variance,
            "share": share,
        }
        named = ("self_mass", "first_mass", "forbidden_mass")
        values |= {name: sums[name].mul_(share) for name in named if name in sums}
        if "max_score" in sums:
            values["max_score"] = sums["max_score"] + lse
        if "top_keys" in sums:
            missing = torch.arange(self.wanted.top_k, device=lse.device) >= visible[..., None]
            values["top_weights"] = (sums["top_weights"].exp() * share[..., None]).masked_fill(missing, 0.0)
            values["top_keys"] = sums["top_keys"].masked_fill(missing, -1)
        if self._some_empty:
            self._clear(values, visible == 0)
        return values

    def _clear(self, values: dict[str, Tensor], empty: Tensor) -> None:
        """Take from queries without keys the weight they took of keys that others see."""
        self._added.cells[:, empty] = 0
        for name, value in values.items():
            if name == "max_score":
                value[empty] = -math.inf
            elif name not in ("lse", "top_keys"):
                value[empty] = 0

    def _first_cell(self, block: Block) -> int:
        """Count cells from key 0 of all."""
        start: int = self.tiling.seen.shard.k_start + block.columns.start
        return start // self.cells.width

    def _pool(self, block: Block, share: Tensor) -> None:
        """Add the masses of the block's buckets, times the share of each row, to the map."""
        masses, start = self._added.masses, self._first_cell(block)
        by_query = (*masses.shape[1:2], self._visible.shape[1], block.queries)  # [heads, group, queries]
        buckets = self.cells.touched(start, start + masses.shape[-1])
        key_mass = self.cells.in_buckets(masses, start).reshape(*by_query, buckets.stop - buckets.start)
        share = share.view(by_query)
        if self.wanted.key_mass:
            kept = self._part("key_mass", block, key_mass, self.cells.all_buckets)
            torch.mul(key_mass, share[..., None], out=kept[..., buckets])
        if not key_mass.numel():
            return
        width = self.wanted.query_bucket
        first, stop = block.q_start // width, (block.q_stop - 1) // width + 1
        rows = torch.arange(block.q_start, block.q_stop, device=share.device) // width
        is_in = rows == torch.arange(first, stop, device=share.device)[:, None]
        sums = (is_in * share[..., None, :]) @ key_mass
        self._pooled[block.heads, :, first:stop, buckets] += sums

    def _measure_again(self, block: Block, values: dict[str, Tensor]) -> None:
        """Replace the rows whose sums cannot be right."""
        low, high = _TRUSTED
        row_sum, entropy = values["row_sum"], values["entropy_nats"]
        right = (row_sum > low) & (row_sum < high) & entropy.isfinite()
        visible = self._visible[block.heads, :, block.q_start : block.q_stop]
        wrong = (~right.view(visible.shape) | self._infinite(block)) & (
            visible > 0
        )  # [heads, group, queries]
        at_once = max(1, _ALONE // max(1, self.tiling.k_len))
        for head, member in wrong.any(dim=-1).nonzero().tolist():
            for queries in torch.split(wrong[head, member].nonzero()[:, 0], at_once):
                again = self._alone(block, head, member, queries)
                of_block = member * block.queries + queries
                self._added.masses[:, head, of_block] = again.pop("masses")
                values["share"][head, of_block] = 1
                for name, value in again.items():
                    if name in ("nan_count", "inf_count"):
                        self._part(name, block, value, *value.shape[1:])[head, member, queries] = value
                    elif name in values:
                        torch.unflatten(values[name], 1, wrong.shape[1:])[head, member, queries] = value

    def _infinite(self, block: Block) -> Tensor:
        """Bool [heads, group or 1, queries or 1]: who may see a score of -inf, which looks like weight 0."""
        if not self._has_infinite[block.heads].any():
            return torch.zeros(1, 1, 1, dtype=torch.bool, device=self.lse.device)
        q = self.tiling.q[block.heads, :, block.q_start : block.q_stop].isinf().any(dim=-1)
        keys = self.tiling.keys[block.heads, :-1, block.columns].isinf().flatten(1).any(dim=-1)
        return q | keys[:, None, None]

    def _alone(self, block: Block, head: int, member: int, queries: Tensor) -> dict[str, Tensor]:
        """Measure some queries of one head again, each from its whole row of scores."""
        tiling, wanted, start = self.tiling, self.wanted, self.tiling.seen.shard.k_start
        kv_head = block.heads.start + head
        at = RowsOf(block.sample, kv_head % tiling.kv_heads * tiling.group + member, block.q_start + queries)
        q = tiling.q[kv_head, member, at.rows].to(tiling.scores.dtype) * tiling.scores.scale
        k = tiling.keys[kv_head, :-1, tiling.lead : tiling.lead + tiling.k_len].t()
        scores, allowed = scores_of_rows(q, k, tiling.seen, at)
        values, weights = measure_rows(
            scores, allowed, self.positions[at.rows] - start, start=start, top_k=wanted.top_k
        )
        behind = tiling.keys.shape[-1] - tiling.lead - tiling.k_len
        columns = pad(weights, (tiling.lead, behind))[:, block.columns]
        cells = torch.unflatten(columns, -1, (-1, self.cells.width)) @ self._over_cell.t()
        masses = cells[..., 3:] if self.cells.buckets > 1 else cells[..., :1]
        values["masses"] = masses.movedim(-1, 0)  # [buckets of a cell, queries, cells]
        if wanted.rule is not None:
            fine = rows_allowed(wanted.rule, at, tiling.k_len).expand(weights.shape)
            values["forbidden_mass"] = weights.masked_fill(fine, 0.0).sum(dim=-1)
        return values

    def rows(self) -> Rows:
        """Return what was measured, [B, H, T_q]."""
        lead = self.lse.shape
        found = {name: value.reshape(*lead, *value.shape[3:]) for name, value in self._all.items()}
        counts = {name: torch.zeros_like(self._visible).reshape(lead) for name in ("nan_count", "inf_count")}
        return Rows(
            query_position=self.positions,
            num_visible=self._visible.reshape(lead).clone(),
            num_keys=self.tiling.k_len,
            **{**counts, **found},
        )

    @property
    def pooled(self) -> Tensor:
        """[B, H, query buckets, key buckets]: the weights of each pair of buckets, added up."""
        return self._pooled.reshape(*self.lse.shape[:2], *self._pooled.shape[2:])
