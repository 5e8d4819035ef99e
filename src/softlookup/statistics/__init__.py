"""What attention did, in exact numbers, without its weights.

observing.py    observe: the output of attend, and the statistics;  recovering.py: single rows of the map
rows.py         what each query did, merged over keys and queries;  summary.py: the numbers of each head
moments.py      running means;  pooled.py: the picture of any length;  showing.py: how they print
distributed.py  a sequence that is spread over processes;  ranks.py: what these tell each other
streaming.py    one pass over the scores: tiling.py cuts them, measuring.py and adding_up.py add up,
augmented.py    the same from more values, by fused attention itself
reading.py      q, k and mask of any shape;  seen_keys.py: a mask, asked about blocks;  wanted.py: the request
"""

from softlookup.statistics.moments import Moments
from softlookup.statistics.observing import observe, observe_shard
from softlookup.statistics.pooled import PooledMap
from softlookup.statistics.recovering import weights_of
from softlookup.statistics.rows import Rows
from softlookup.statistics.summary import Statistics

__all__ = ["Moments", "PooledMap", "Rows", "Statistics", "observe", "observe_shard", "weights_of"]
