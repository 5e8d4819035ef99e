"""Work shared out among threads of Python, each of which computes alone.

PyTorch shares out one operation at a time, and waits for all its threads after each. Hundreds of short
operations on tiles then wait hundreds of times, and wherever another program takes a core now and then, each
wait lasts as long as its turn. Here a thread takes the next item when it is done with the last, and nobody
waits before the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Barrier, Thread
from typing import TypeVar

import torch

T = TypeVar("T")

_EACH = 4  # items at least for a thread: threads wait for each other's Python, and few items do not repay it


def share_out(items: Sequence[T], start: Callable[[], Callable[[T], None]]) -> None:
    """Have every item done, by at most as many threads as PyTorch uses for one operation.

    start: called once in each thread; what it returns is called with one item after the other

    Gradients are not recorded in the threads. What an item raises is raised here.
    """
    threads = min(torch.get_num_threads(), max(1, len(items) // _EACH))
    if threads < 2:
        _in_this_thread(items, start)
        return
    queue: SimpleQueue[T] = SimpleQueue()
    for item in items:
        queue.put(item)
    before, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    all_set = Barrier(threads + 1)

    def work() -> None:
        torch.set_num_threads(1)  # of this thread, but threads that start now take it over: see below
        all_set.wait()
        with torch.inference_mode(inference), torch.no_grad():
            do = start()
            while True:
                try:
                    item = queue.get_nowait()
                except Empty:
                    return
                do(item)

    try:
        with ThreadPoolExecutor(threads) as pool:
            working = [pool.submit(work) for _ in range(threads)]
            all_set.wait()
            torch.set_num_threads(before)  # for threads that others start meanwhile
            for done in working:
                done.result()
    finally:
        torch.set_num_threads(before)


def _in_this_thread(items: Sequence[T], start: Callable[[], Callable[[T], None]]) -> None:
    """Have every item done here, by one thread: a new one costs as much as many short operations."""
    before = torch.get_num_threads()
    try:
        if before > 1:
            torch.set_num_threads(1)  # here, and in threads that start now
            others = Thread(target=torch.set_num_threads, args=(before,))  # sets it back but for this one
            others.start()
            others.join()
        do = start()
        for item in items:
            do(item)
    finally:
        if before > 1:
            torch.set_num_threads(before)
