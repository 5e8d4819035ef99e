"""Numbers of a watch reach the loggers of others, and a logger that fails harms nothing."""

import logging
import math
import warnings

import pytest
import torch

from softlookup import SoftlookupError, observe
from softlookup.live.logging_to import flat_numbers, make_logger
from softlookup.live.record import Call, Record
from softlookup.masks import causal

NUMBERS = {"attention/layers.0/max_score/max": 12.5, "attention/entropy_share/mean": 0.25}


class SummaryWriter:
    """As torch.utils.tensorboard has it."""

    def __init__(self):
        self.seen = []

    def add_scalar(
        self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False
    ):
        self.seen.append((tag, scalar_value, global_step))


class Run:
    """As W&B has it: steps that do not grow are thrown away."""

    def __init__(self):
        self.seen, self.axes, self.step = [], {}, 0

    def define_metric(
        self, name, step_metric=None, step_sync=None, hidden=None, summary=None, overwrite=None
    ):
        self.axes[name] = step_metric

    def log(self, data, step=None, commit=None):
        if step is None or step >= self.step:
            self.seen.append(data)
            self.step = self.step + 1 if step is None else step


class PlainRun:
    """A run without axes of its own."""

    def __init__(self):
        self.seen = []

    def log(self, data, step=None, commit=None):
        self.seen.append((data, step))


class Mlflow:
    """As the module mlflow has it, with the limit of its server."""

    def __init__(self):
        self.seen = []

    def log_metrics(self, metrics, step=None, synchronous=None, run_id=None, timestamp=None):
        assert len(metrics) <= 1000
        self.seen.append((metrics, step))


def test_tensorboard_gets_one_scalar_a_number():
    writer = SummaryWriter()
    make_logger(writer)(NUMBERS, 7)
    assert writer.seen == [(name, value, 7) for name, value in NUMBERS.items()]


def test_a_run_of_wandb_gets_the_step_as_an_axis_and_loses_nothing_beside_other_logs():
    run = Run()
    log = make_logger(run)
    for step in range(3):
        run.log({"loss": 1.0})  # the training loop moves the run's own step on, faster than ours
        run.log({"rate": 1.0})
        log(NUMBERS, step)
    assert run.axes == {"attention/*": "attention/step"}
    assert run.seen[2::3] == [{"attention/step": step, **NUMBERS} for step in range(3)]


def test_a_run_without_axes_gets_the_step_itself():
    run = PlainRun()
    make_logger(run)(NUMBERS, 4)
    assert run.seen == [(NUMBERS, 4)]


def test_mlflow_gets_no_more_than_a_thousand_numbers_at_once():
    target = Mlflow()
    many = {f"attention/{number}": float(number) for number in range(2500)}
    make_logger(target)(many, 3)
    assert [step for _, step in target.seen] == [3, 3, 3]
    assert {name: value for metrics, _ in target.seen for name, value in metrics.items()} == many


def test_a_function_gets_numbers_and_step():
    seen = []
    make_logger(lambda numbers, step: seen.append((numbers, step)))(NUMBERS, 2)
    assert seen == [(NUMBERS, 2)]


class MlflowClient:
    """As mlflow.tracking has it: each number wants a run."""

    def log_metric(self, run_id, key, value, timestamp=None, step=None):
        raise AssertionError

    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        raise AssertionError


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, "a NoneType"),
        ("runs/", "a str"),
        (SummaryWriter, r"give an instance: SummaryWriter\(...\)"),
        (logging.getLogger("training"), "a Logger"),
        (math, "a module"),  # it has a log, of numbers
        (MlflowClient(), "give mlflow itself"),
    ],
)
def test_what_cannot_log_is_refused_with_a_hint(target, words):
    with pytest.raises(SoftlookupError, match=words):
        make_logger(target)


def test_a_logger_that_raises_warns_once_and_training_goes_on():
    def fail(numbers, step):
        raise ConnectionError("the server is gone")

    log = make_logger(fail)
    with pytest.warns(RuntimeWarning, match="logging step 1 to a function failed.*the server is gone"):
        log(NUMBERS, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(NUMBERS, 2)


def test_an_interrupt_is_not_swallowed():
    def interrupt(numbers, step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_logger(interrupt)(NUMBERS, 1)


def record_of(layer="layers.0", seed=0, number=0, samples=1, **options):
    draw = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, samples, 3, 6, 4, generator=draw)
    _, statistics = observe(q, k, v, options.pop("mask", causal()), **options)
    return Record(Call(5, layer, number, "softmax", "self", True, samples, 3, 3, 6, 6), statistics, 6)


def test_numbers_are_named_by_layer_and_statistic_with_mean_and_worst_over_heads():
    record = record_of("model.layers.3.attn", exact_max=True)
    flat = flat_numbers([record])
    largest = record.statistics.max_score[0]
    assert flat["attention/model.layers.3.attn/max_score/max"] == largest.max().item()
    assert flat["attention/model.layers.3.attn/max_score/mean"] == pytest.approx(largest.mean().item())
    assert flat["attention/model.layers.3.attn/nan_count"] == 0
    assert "attention/model.layers.3.attn/entropy_share/min" in flat
    assert "attention/model.layers.3.attn/entropy_share/max" not in flat
    assert not [name for name in flat if "head" in name]
    assert all(isinstance(value, float) for value in flat.values())


def test_each_head_is_logged_when_asked():
    record = record_of()
    flat = flat_numbers([record], per_head=True)
    for head in range(3):
        expected = record.statistics.self_mass[0, head].item()
        assert flat[f"attention/layers.0/self_mass/head_{head}"] == expected


def test_several_calls_of_a_layer_in_a_step_are_taken_together():
    calls = [record_of(seed=seed, number=seed) for seed in range(3)]
    flat = flat_numbers([*calls, record_of("other")])
    shares = torch.stack([call.statistics.first_mass[0] for call in calls])
    assert flat["attention/layers.0/first_mass/max"] == shares.max().item()
    assert flat["attention/layers.0/first_mass/mean"] == pytest.approx(shares.mean().item())
    assert "attention/other/first_mass/mean" in flat


def test_counts_are_added_up():
    q, k, v = torch.randn(3, 1, 3, 6, 4)
    k[0, 1, 2] = math.nan
    _, statistics = observe(q, k, v)
    record = Record(Call(0, "a", 0, "softmax", "self", True, 1, 3, 3, 6, 6), statistics, 6)
    flat = flat_numbers([record, record], per_head=True)
    assert flat["attention/a/nan_count"] == 12  # the key that is NaN, seen by six queries, twice
    assert [flat[f"attention/a/nan_count/head_{head}"] for head in range(3)] == [0, 12, 0]


def test_what_was_not_measured_is_left_out():
    flat = flat_numbers([record_of()])
    assert not [name for name in flat if "forbidden_mass" in name or "max_score/" in name]
    assert not any(map(math.isnan, flat.values()))


def test_the_model_itself_has_no_layer_in_its_names():
    assert "attention/self_mass/mean" in flat_numbers([record_of("")])


def test_tensorboard_itself_writes_what_it_is_given(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        log = make_logger(writer)
        for step in range(3):
            log({"attention/layers.0/self_mass/mean": step / 4}, step)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(it.step, it.value) for it in events.Scalars("attention/layers.0/self_mass/mean")]
    assert found == [(0, 0.0), (1, 0.25), (2, 0.5)]
