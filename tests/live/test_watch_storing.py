"""A trace on disk: what was measured comes back bit for bit, whatever befell the process or the files."""

import dataclasses
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import SoftlookupError
from softlookup.live.record import Alarm, Call, Record
from softlookup.live.step_encoding import put_together, take_apart
from softlookup.live.stored import read_trace
from softlookup.live.storing import TraceWriter
from softlookup.statistics.moments import Moments
from softlookup.statistics.pooled import PooledMap
from softlookup.statistics.summary import Statistics

INDEX, TENSORS = "index-000000.jsonl", "tensors-000000.bin"
ODD = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1 / 3, 1.7976931348623157e308]


def statistics_of(seed, shape=(1, 3), pooled=True):
    """Return statistics of random bits, odd numbers among them: storing must not understand them."""
    draw = random.Random(seed)

    def floats(dtype=torch.float64, size=shape):
        count = math.prod(size)
        numbers = [draw.choice(ODD) if draw.random() < 0.3 else draw.gauss(0, 9) for _ in range(count)]
        return torch.tensor(numbers, dtype=dtype).reshape(size)

    def integers():
        return torch.tensor([draw.randrange(1 << 62) for _ in range(math.prod(shape))]).reshape(shape)

    moments = {name: Moments(integers(), *(floats() for _ in range(4))) for name in ("lse", "self_mass")}
    counts = {name: integers() for name in ("queries", "nan_count")}
    dtype = draw.choice([torch.float32, torch.float64])
    grid = PooledMap(floats(dtype, (*shape, 2, 3)), (4, 1), (2, 2, 1), maps=draw.randrange(1, 99))
    return Statistics(moments, counts, grid if pooled else None, steps=draw.randrange(1, 9))


def record_of(step, number=0, **options):
    call = Call(step, "model.layers.0.attn", number, "softmax", "cached", True, 2, 3, 1, 5, 7)
    return Record(call, statistics_of(step * 100 + number, **options), 5, False, "no key lengths")


def alarm_of(step, value):
    return Alarm("SL903", "scores-exploding", "model.layers.0.attn", None, step, value, 'larger than "100" ✗')


def a_step(step):
    return [record_of(step, number, pooled=number == 0) for number in range(2)], [alarm_of(step, step / 3)]


def bits(tensor):
    return str(tensor.dtype), tuple(tensor.shape), tensor.contiguous().view(torch.uint8).tolist()


def all_of(statistics):
    """Return everything that statistics hold, as values that compare by their bits."""
    pooled = statistics.pooled
    return (
        {
            name: {part.name: bits(getattr(it, part.name)) for part in dataclasses.fields(it)}
            for name, it in statistics.moments.items()
        },
        {name: bits(count) for name, count in statistics.counts.items()},
        pooled and (bits(pooled.sums), pooled.grid, pooled.maps),
        statistics.steps,
    )


def told(record):
    plain = (record.call, record.queries, record.finite, record.rule_not_asked)
    return *plain, all_of(record.statistics)


def all_told(records):
    return [told(record) for record in records]


def write(folder, steps, **options):
    with TraceWriter(folder, **options) as trace:
        for step in steps:
            trace.append(*a_step(step))


def steps_in(trace):
    """Return the steps that a trace holds, each proved to be what was written."""
    steps = [record.call.step for record in trace.records[::2]]
    expected = [a_step(step) for step in steps]
    assert all_told(trace.records) == all_told([record for records, _ in expected for record in records])
    assert list(trace.alarms) == [alarm for _, alarms in expected for alarm in alarms]
    assert trace.steps == len(steps)
    return steps


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.tuples(st.integers(0, 3), st.integers(0, 4)), st.booleans())
def test_statistics_come_back_bit_for_bit(seed, shape, pooled):
    statistics = statistics_of(seed, shape, pooled)
    assert all_of(put_together(*take_apart(statistics))) == all_of(statistics)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 10**6), max_size=4),
    st.lists(st.floats(), max_size=3),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
def test_records_and_alarms_come_back_bit_for_bit(tmp_path_factory, seeds, values, layer):
    folder = tmp_path_factory.mktemp("trace")
    records = [record_of(seed) for seed in seeds]
    records = [
        dataclasses.replace(record, call=dataclasses.replace(record.call, layer=layer)) for record in records
    ]
    alarms = [alarm_of(3, value) for value in values]
    with TraceWriter(folder) as trace:
        trace.append(records, alarms)
    found = read_trace(folder)
    assert all_told(found.records) == all_told(records)
    assert [repr(alarm) for alarm in found.alarms] == [
        repr(alarm) for alarm in alarms
    ]  # NaN equals itself here


def test_the_same_record_twice_and_a_view_are_stored(tmp_path):
    whole = statistics_of(1, (1, 6))
    half = dataclasses.replace(
        whole, pooled=dataclasses.replace(whole.pooled, sums=whole.pooled.sums[:, ::2])
    )
    record = dataclasses.replace(record_of(0), statistics=half)
    with TraceWriter(tmp_path / "t") as trace:
        trace.append([record, record])
    assert all_told(read_trace(tmp_path / "t").records) == all_told([record, record])


def test_every_line_is_json_that_says_where_its_tensors_lie(tmp_path):
    from safetensors.torch import load

    write(tmp_path / "t", [0, 1], meta={"model": "toy"})
    header, *lines = [json.loads(line) for line in (tmp_path / "t" / INDEX).read_text().splitlines()]
    assert header["meta"]["model"] == "toy"
    assert header["meta"]["torch"] == torch.__version__
    blobs = (tmp_path / "t" / TENSORS).read_bytes()
    for line in lines:
        assert "0.moments" in load(blobs[line["offset"] : line["offset"] + line["length"]])
    assert sum(line["length"] for line in lines) == len(blobs)


def test_a_trace_cut_at_any_byte_of_its_last_step_holds_all_others(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    write(whole, [0, 1])
    before = {name: (whole / name).stat().st_size for name in (INDEX, TENSORS)}
    write(tmp_path / "longer", [0, 1, 2])
    after = {name: (tmp_path / "longer" / name).read_bytes() for name in (INDEX, TENSORS)}
    cut.mkdir()
    for name, other in ((INDEX, TENSORS), (TENSORS, INDEX)):
        (cut / other).write_bytes(after[other])
        for length in range(before[name], len(after[name])):
            (cut / name).write_bytes(after[name][:length])
            trace = read_trace(cut)
            assert steps_in(trace) == [0, 1]
            assert not trace.damaged
            # a line of which nothing is there says nothing; all else is told
            assert bool(trace.cut_off) == (name == TENSORS or length > before[name])


def test_a_trace_cut_at_any_byte_holds_what_is_whole_and_goes_on(tmp_path):
    write(tmp_path / "whole", range(4))
    index, tensors = ((tmp_path / "whole" / name).read_bytes() for name in (INDEX, TENSORS))
    draw = random.Random(1)
    cut = tmp_path / "cut"
    cut.mkdir()
    for round_ in range(60):
        for file in cut.iterdir():
            file.unlink()
        lengths = draw.randint(0, len(index)), draw.randint(0, len(tensors))
        (cut / INDEX).write_bytes(index[: lengths[0]])
        (cut / TENSORS).write_bytes(tensors[: lengths[1]])
        ends = [json.loads(line)["offset"] + json.loads(line)["length"] for line in index.splitlines()[1:]]
        lines = index[: lengths[0]].count(b"\n") - 1
        whole = sum(end <= lengths[1] for end in ends[: max(lines, 0)])
        assert steps_in(read_trace(cut)) == list(range(whole)), round_
        with TraceWriter(cut, resume=True) as trace:
            trace.append(*a_step(7))
        again = read_trace(cut)
        assert steps_in(again) == [*range(whole), 7]
        assert not again.cut_off
        assert not again.damaged


@pytest.mark.parametrize("name", [INDEX, TENSORS])
def test_a_byte_changed_before_the_last_step_is_never_silent(tmp_path, name):
    write(tmp_path / "t", range(3))
    file = tmp_path / "t" / name
    kept = file.read_bytes()
    last = json.loads((tmp_path / "t" / INDEX).read_text().splitlines()[-1])
    lines = (tmp_path / "t" / INDEX).read_bytes()
    end = last["offset"] if name == TENSORS else lines.rstrip(b"\n").rfind(b"\n")
    draw = random.Random(2)
    for place in draw.sample(range(end), 80):
        spoiled = bytearray(kept)
        spoiled[place] ^= 1 << draw.randrange(8)
        file.write_bytes(spoiled)
        with pytest.raises(SoftlookupError, match="damaged"):
            read_trace(tmp_path / "t")
        trace = read_trace(tmp_path / "t", skip_damaged=True)
        assert trace.damaged
        assert 2 in steps_in(trace)


def test_a_line_taken_out_of_the_middle_is_said(tmp_path):
    write(tmp_path / "t", range(4))
    lines = (tmp_path / "t" / INDEX).read_bytes().splitlines(keepends=True)
    (tmp_path / "t" / INDEX).write_bytes(b"".join(lines[:2] + lines[4:]))
    with pytest.raises(SoftlookupError, match="steps 1 to 2 of the trace are missing"):
        read_trace(tmp_path / "t")


APPEND_FOR_EVER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_watch_storing import TraceWriter, a_step
import torch
torch.set_num_threads(1)
steps = [a_step(step) for step in range(40)]
with TraceWriter(sys.argv[1]) as trace:
    for step in steps * 10**6:
        trace.append(*step)
        print(step[0][0].call.step, flush=True)
"""


def test_a_process_killed_at_a_random_moment_leaves_all_but_its_last_step(tmp_path):
    draw = random.Random(time.time_ns())
    here = os.path.dirname(os.path.abspath(__file__))
    for round_ in range(3):
        folder = tmp_path / str(round_)
        arguments = [sys.executable, "-c", APPEND_FOR_EVER, str(folder), here]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        try:
            process.stdout.readline()  # the first step is there
            time.sleep(draw.uniform(0, 0.15))
        finally:
            process.send_signal(signal.SIGKILL)
        said = 1 + len(process.stdout.read().split())
        process.wait()
        trace = read_trace(folder)
        steps = steps_in(trace)
        assert steps == [step % 40 for step in range(len(steps))]
        assert said - 1 <= len(steps) <= said + 1  # the last number may be in the pipe only in part
        assert not trace.damaged
        write(folder, [5], resume=True)  # the lock went with the process
        assert steps_in(read_trace(folder)) == [*steps, 5]


WATCH_FOR_EVER = """
import sys, torch
from softlookup.live.outlet import Outlet
from softlookup.live.watching import watch
torch.set_num_threads(1)
layer = torch.nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()
outlet = Outlet(save_to=sys.argv[1])
with watch(model, on_record=outlet.take) as trace, outlet.following(trace):
    for step in range(10**6):
        model(torch.randn(1, 5, 16)).sum().backward()
        outlet.end_step(step)
        print(step, flush=True)
"""


def test_a_watched_run_that_is_killed_leaves_all_but_the_last_step_of_every_layer(tmp_path):
    arguments = [sys.executable, "-c", WATCH_FOR_EVER, str(tmp_path / "t")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        time.sleep(random.uniform(0, 0.3))
    finally:
        process.send_signal(signal.SIGKILL)
    said = 1 + len(process.stdout.read().split())
    process.wait()
    trace = read_trace(tmp_path / "t")
    layers = [f"layers.{layer}.self_attn" for layer in range(2)]
    assert [(record.call.step, record.call.layer) for record in trace.records] == [
        (step, layer) for step in range(trace.steps) for layer in layers
    ]
    assert trace.steps >= said - 1


def test_a_folder_with_a_trace_is_refused_unless_it_goes_on(tmp_path):
    write(tmp_path / "t", [0])
    with pytest.raises(SoftlookupError, match="holds a trace already"):
        TraceWriter(tmp_path / "t")
    write(tmp_path / "t", [1], resume=True, meta={"model": "later"})
    trace = read_trace(tmp_path / "t")
    assert steps_in(trace) == [0, 1]
    assert trace.meta["model"] == "later"


def test_two_writers_of_one_folder_are_refused(tmp_path):
    with TraceWriter(tmp_path / "t"), pytest.raises(SoftlookupError, match="another process or trace writes"):
        TraceWriter(tmp_path / "t", resume=True)


def test_a_refused_writer_leaves_no_lock(tmp_path):
    write(tmp_path / "t", [0])
    with pytest.raises(SoftlookupError) as refused:
        TraceWriter(tmp_path / "t")
    write(tmp_path / "t", [1], resume=True)
    assert "resume=True" in str(refused.value)


def test_a_trace_can_be_read_while_it_is_written(tmp_path):
    with TraceWriter(tmp_path / "t") as trace:
        for step in range(3):
            trace.append(*a_step(step))
            assert steps_in(read_trace(tmp_path / "t")) == list(range(step + 1))


def test_max_bytes_bounds_the_folder_and_the_newest_steps_stay(tmp_path):
    write(tmp_path / "one", [0])
    one = sum(file.stat().st_size for file in (tmp_path / "one").iterdir())
    folder, most = tmp_path / "t", 20 * one
    with TraceWriter(folder, max_bytes=most) as trace:
        for step in range(60):
            trace.append(*a_step(step))
            assert sum(file.stat().st_size for file in folder.iterdir()) <= most
            found = read_trace(folder)
            assert steps_in(found) == list(range(found.older, step + 1))
            assert not found.damaged
    assert 10 < found.steps < 30
    write(folder, [60], resume=True, max_bytes=most)
    assert steps_in(read_trace(folder))[-1] == 60


def test_a_step_larger_than_max_bytes_is_kept(tmp_path):
    write(tmp_path / "t", range(3), max_bytes=10)
    trace = read_trace(tmp_path / "t")
    assert steps_in(trace) == [2]
    assert trace.older == 2


def test_a_full_disk_ends_the_trace_and_not_the_training(tmp_path):
    with TraceWriter(tmp_path / "t") as trace:
        trace.append(*a_step(0))
        real = trace._open[0]

        class Full:
            def write(self, written):
                real.write(written[:10])
                real.flush()
                raise OSError(28, "No space left on device")

            def __getattr__(self, name):
                return getattr(real, name)

        trace._open[0] = Full()
        with pytest.warns(RuntimeWarning, match="No space left on device"):
            trace.append(*a_step(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trace.append(*a_step(2))
        assert "No space left" in trace.stopped
    assert steps_in(read_trace(tmp_path / "t")) == [0]


def test_the_tensors_are_on_disk_before_the_line_that_speaks_of_them(tmp_path):
    with TraceWriter(tmp_path / "t") as trace:
        real, sizes = trace._open[1], []

        class Watched:
            def write(self, written):
                sizes.append(((tmp_path / "t" / TENSORS).stat().st_size, json.loads(written)["length"]))
                return real.write(written)

            def __getattr__(self, name):
                return getattr(real, name)

        trace._open[1] = Watched()
        trace.append(*a_step(0))
    [(there, length)] = sizes
    assert there == length > 0


def test_an_interrupted_write_is_taken_back(tmp_path):
    with TraceWriter(tmp_path / "t") as trace:
        trace.append(*a_step(0))
        real = trace._open[1]

        class Interrupted:
            def write(self, written):
                real.write(written[:10])
                real.flush()
                raise KeyboardInterrupt

            def __getattr__(self, name):
                return getattr(real, name)

        trace._open[1] = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            trace.append(*a_step(1))
        trace._open[1] = real
        trace.append(*a_step(2))
    assert steps_in(read_trace(tmp_path / "t")) == [0, 2]


def test_what_cannot_be_done_is_said(tmp_path):
    with pytest.raises(SoftlookupError, match="no such folder"):
        read_trace(tmp_path / "none")
    with pytest.raises(SoftlookupError, match="a folder without one"):
        read_trace(tmp_path)
    with pytest.raises(SoftlookupError, match="meta cannot be written"):
        TraceWriter(tmp_path / "t", meta={"model": object()})
    trace = TraceWriter(tmp_path / "t")
    trace.close()
    trace.close()
    with pytest.raises(SoftlookupError, match="closed"):
        trace.append([])
    (tmp_path / "t" / TENSORS).unlink()
    with pytest.raises(SoftlookupError, match="two files for each part"):
        read_trace(tmp_path / "t")


def test_a_trace_of_another_version_is_refused(tmp_path):
    from softlookup.live.trace_files import sealed

    write(tmp_path / "t", [])
    (tmp_path / "t" / INDEX).write_bytes(sealed({"softlookup_trace": 99, "first_entry": 0, "meta": {}}))
    with pytest.raises(SoftlookupError, match="version 99"):
        read_trace(tmp_path / "t")
