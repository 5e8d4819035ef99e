"""A trainer that is given the callback is watched from its first step to its last, and left as it was."""

import builtins
import gc
import math
import types

import pytest
import torch
from torch import nn

from softlookup import SoftlookupError
from softlookup.live.callbacks import lightning_callback, trainer_callback
from softlookup.live.outlet import Outlet
from softlookup.live.record import Alarm, Call, Record
from softlookup.live.stored import read_trace
from softlookup.live.tap import listeners
from softlookup.live.watching import watch
from softlookup.masks import causal


def a_layer():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


class Model(nn.Module):
    """Two layers without a mask."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([a_layer(), a_layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


PATHS = ["layers.0.self_attn", "layers.1.self_attn"]


def forward(model):
    return model(torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1)))


def logged():
    """Return a list and a logger that fills it."""
    seen = []
    return seen, lambda numbers, step: seen.append((step, dict(numbers)))


def is_watched():
    return len(listeners()) > 0


# --- what a step has brought is handed on


def run(model, outlet, steps=3, **options):
    with watch(model, on_record=outlet.take, **options) as trace, outlet.following(trace, {"model": "toy"}):
        for step in range(steps):
            forward(model)
            outlet.end_step(step)
    return trace


def test_a_trace_on_disk_holds_the_records_and_alarms_of_the_watch(tmp_path):
    trace = run(Model().eval(), Outlet(save_to=tmp_path / "t"), rule=causal())
    stored = read_trace(tmp_path / "t")
    assert [record.call for record in stored.records] == [record.call for record in trace.records]
    for ours, theirs in zip(stored.records, trace.records, strict=True):
        assert torch.equal(ours.statistics.entropy_nats, theirs.statistics.entropy_nats)
    assert list(stored.alarms) == trace.alarms != []
    assert (stored.steps, stored.meta["model"]) == (3, "toy")


def test_loggers_get_the_numbers_of_each_step():
    (first, to_first), (second, to_second) = logged(), logged()
    run(Model().eval(), Outlet(log_to=[to_first, to_second]))
    assert [step for step, _ in first] == [0, 1, 2]
    assert first == second
    assert {name.split("/")[1] for name in first[0][1]} == set(PATHS)


def test_a_step_that_an_exception_ends_is_saved(tmp_path):
    model, outlet = Model().eval(), Outlet(save_to=tmp_path / "t")

    def train():
        with watch(model, on_record=outlet.take, rule=causal()) as trace, outlet.following(trace):
            forward(model)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    stored = read_trace(tmp_path / "t")
    assert [record.call.layer for record in stored.records] == PATHS
    assert stored.alarms


def test_a_step_without_records_is_not_logged():
    seen, to_seen = logged()
    run(Model().eval(), Outlet(log_to=to_seen), steps=5, every=2)
    assert [step for step, _ in seen] == [0, 2, 4]


def test_evaluation_is_saved_and_not_logged(tmp_path):
    seen, to_seen = logged()
    model, outlet = Model().eval(), Outlet(save_to=tmp_path / "t", log_to=to_seen)
    with watch(model, on_record=outlet.take) as trace, outlet.following(trace):
        forward(model)
        outlet.drop()
        outlet.end_step(0)
    assert seen == []
    assert len(read_trace(tmp_path / "t").records) == 2


def test_a_step_of_very_many_calls_does_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr("softlookup.live.outlet._MOST", 4)
    model, outlet = Model().eval(), Outlet(save_to=tmp_path / "t")
    with watch(model, on_record=outlet.take) as trace, outlet.following(trace):
        for _ in range(5):
            forward(model)
            assert len(outlet._waiting) < 4
    assert len(read_trace(tmp_path / "t").records) == 10


def test_each_rank_has_a_folder_of_its_own_and_the_first_one_logs(tmp_path, monkeypatch):
    seen, to_seen = logged()
    for rank in range(2):
        monkeypatch.setattr("softlookup.live.outlet._rank", lambda rank=rank: (rank, 2))
        run(Model().eval(), Outlet(save_to=tmp_path / "t", log_to=to_seen), steps=1)
    assert [len(read_trace(tmp_path / "t" / f"rank-{rank}").records) for rank in range(2)] == [2, 2]
    assert len(seen) == 1


def test_an_alarm_is_handed_on_once(tmp_path):
    outlet = Outlet(save_to=tmp_path / "t")
    alarm = Alarm("SL903", "scores-exploding", "a", None, 0, math.inf, "large")
    trace = types.SimpleNamespace(alarms=[alarm], coverage="")
    with outlet.following(trace):
        outlet.end_step(0)
        trace.alarms.append(alarm)
        outlet.end_step(1)
        outlet.end_step(2)
    assert len(read_trace(tmp_path / "t").alarms) == 2


# --- transformers: events as Trainer sends them


def event(callback, name, model=None, step=0):
    state = types.SimpleNamespace(global_step=step)
    getattr(callback, name)(None, state, types.SimpleNamespace(), model=model, optimizer=None)


@pytest.fixture
def _transformers():
    pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.usefixtures("_transformers")
def test_a_step_of_the_watch_is_a_step_of_the_optimizer():
    seen, to_seen = logged()
    callback, model = trainer_callback(log_to=to_seen, rule=causal()), Model()
    event(callback, "on_train_begin", model)
    for step in (1, 2, 3):
        forward(model)
        forward(model)  # gradients are accumulated
        event(callback, "on_substep_end", model, step)
        event(callback, "on_step_end", model, step)
    forward(model)
    event(callback, "on_evaluate", model, 3)
    event(callback, "on_train_end", model, 3)
    assert [step for step, _ in seen] == [1, 2, 3]
    calls = [record.call for record in callback.trace.records if record.call.layer == PATHS[0]]
    assert [(call.step, call.number) for call in calls] == [
        *((step, number) for step in (1, 2, 3) for number in (0, 1)),
        (4, 0),  # the evaluation
    ]
    assert callback.trace.alarms[0].code == "SL901"
    assert not is_watched()


@pytest.mark.usefixtures("_transformers")
def test_after_an_exception_the_watch_ends_with_its_block_or_the_next_training_or_the_callback():
    def train():
        with trainer_callback() as callback:
            event(callback, "on_train_begin", Model())
            assert is_watched()
            raise RuntimeError("of the training")

    with pytest.raises(RuntimeError, match="of the training"):
        train()
    assert not is_watched()

    callback, later = trainer_callback(), Model()
    event(callback, "on_train_begin", Model())
    first = callback.session._open  # as the frames of an exception would hold it
    event(callback, "on_train_begin", later)
    assert len(listeners()) == 1
    del first
    forward(later)
    assert len(callback.trace.records) == 2
    del callback
    gc.collect()
    assert not is_watched()


@pytest.mark.usefixtures("_transformers")
def test_a_watch_that_cannot_begin_leaves_nothing_behind(tmp_path):
    run(Model().eval(), Outlet(save_to=tmp_path / "t"))
    callback = trainer_callback(save_to=tmp_path / "t")
    with pytest.raises(SoftlookupError, match="resume=True"):
        event(callback, "on_train_begin", Model())
    assert not is_watched()
    with pytest.raises(TypeError):
        event(trainer_callback(no_such_option=3), "on_train_begin", Model())


@pytest.mark.usefixtures("_transformers")
def test_the_caller_gets_the_records_as_well():
    mine = []
    callback, model = trainer_callback(on_record=mine.append), Model()
    event(callback, "on_train_begin", model)
    forward(model)
    event(callback, "on_train_end", model)
    assert [record.call.layer for record in mine] == PATHS


@pytest.mark.usefixtures("_transformers")
def test_what_cannot_log_is_refused_before_training():
    with pytest.raises(SoftlookupError, match="nothing can be logged to this"):
        trainer_callback(log_to=3)


@pytest.mark.parametrize(
    ("make", "library"), [(trainer_callback, "transformers"), (lightning_callback, "lightning")]
)
def test_without_the_library_it_is_said_what_to_install(make, library, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in {"transformers", "lightning", "pytorch_lightning"}:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SoftlookupError, match=rf"{library} is not installed(.|\n)*pip install"):
        make()


def trained(tmp_path, *callbacks, fail_at=None):
    """Train a tiny Llama for four steps with the real Trainer, and return its parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config)
    data = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 32, (32, 12))]
    if fail_at is not None:
        data[fail_at] = None
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"),
        max_steps=4,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        eval_strategy="steps",
        eval_steps=2,
    )
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4], callbacks=list(callbacks))
    trainer.train()
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.fixture
def _trainer(_transformers):
    pytest.importorskip("accelerate", reason="Trainer needs accelerate, which is not installed")


@pytest.mark.usefixtures("_trainer")
def test_a_real_trainer_is_watched_and_learns_the_same(tmp_path):
    seen, to_seen = logged()
    callback = trainer_callback(rule=causal(), log_to=to_seen, save_to=tmp_path / "t")
    watched, plain = trained(tmp_path, callback), trained(tmp_path)
    assert all(torch.equal(watched[name], plain[name]) for name in plain)
    assert [step for step, _ in seen] == [1, 2, 3, 4]
    assert callback.trace.alarms == []
    stored = read_trace(tmp_path / "t")
    assert {record.call.layer for record in stored.records} == {
        f"model.layers.{layer}.self_attn" for layer in range(2)
    }
    assert {record.call.training for record in stored.records} == {True, False}  # evaluation is saved too
    assert stored.meta["model"] == "LlamaForCausalLM"
    assert not is_watched()


@pytest.mark.usefixtures("_trainer")
def test_a_real_trainer_that_fails_is_no_longer_watched(tmp_path):
    def train():
        with trainer_callback() as callback:
            trained(tmp_path, callback, fail_at=3)

    with pytest.raises((TypeError, AttributeError, ValueError)):
        train()
    assert not is_watched()


# --- Lightning


def fit(callback, tmp_path, fail_at=None, **options):
    """Fit the model for eight batches with the real Trainer of Lightning, and return its parameters."""
    import lightning.pytorch as lightning

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, number):
            if number == fail_at:
                raise RuntimeError("of the training")
            return self.model(batch).square().mean()

        def validation_step(self, batch, number):
            self.model(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    task = Task()
    data = list(torch.randn(8, 2, 5, 8, generator=torch.Generator().manual_seed(2)))
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        accumulate_grad_batches=2,
        callbacks=[callback] if callback else [],
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **{"logger": False, **options},
    )
    loaders = [torch.utils.data.DataLoader(some, batch_size=None) for some in (data, data[:2])]
    trainer.fit(task, *loaders)
    return {name: value.clone() for name, value in task.state_dict().items()}


@pytest.fixture
def _lightning():
    pytest.importorskip("lightning", reason="lightning is not installed")


@pytest.mark.usefixtures("_lightning")
def test_lightning_is_watched_and_learns_the_same(tmp_path):
    seen, to_seen = logged()
    callback = lightning_callback(rule=causal(), log_to=to_seen, save_to=tmp_path / "t")
    watched, plain = fit(callback, tmp_path), fit(None, tmp_path)
    assert all(torch.equal(watched[name], plain[name]) for name in plain)
    assert [step for step, _ in seen] == [1, 2, 3, 4]
    assert callback.trace.alarms[0].code == "SL901"
    calls = [record.call for record in read_trace(tmp_path / "t").records]
    assert {call.layer for call in calls if call.training} == {f"model.{path}" for path in PATHS}
    assert {call.step for call in calls if call.training} == {1, 2, 3, 4}
    assert not is_watched()


@pytest.mark.usefixtures("_lightning")
def test_lightning_that_fails_is_no_longer_watched(tmp_path):
    callback = lightning_callback(save_to=tmp_path / "t")
    with pytest.raises(RuntimeError, match="of the training"):
        fit(callback, tmp_path, fail_at=5)
    assert not is_watched()
    assert read_trace(tmp_path / "t").records


@pytest.mark.usefixtures("_lightning")
def test_the_loggers_of_lightning_get_the_numbers(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(tmp_path / "csv")
    fit(lightning_callback(), tmp_path, logger=logger, log_every_n_steps=1)
    logger.save()
    [file] = (tmp_path / "csv").rglob("metrics.csv")
    assert f"attention/model.{PATHS[1]}/self_mass/mean" in file.read_text()


def test_a_record_without_a_trace_is_not_lost(tmp_path):
    """Records may come before ``following``: nothing is saved yet, and nothing fails."""
    outlet, model, taken = Outlet(save_to=tmp_path / "t"), Model().eval(), []
    with watch(model, on_record=taken.append):
        forward(model)
    outlet.take(taken[0])
    with outlet.following(types.SimpleNamespace(alarms=[], coverage="")):
        pass
    assert isinstance(taken[0], Record)
    assert isinstance(taken[0].call, Call)
    assert len(read_trace(tmp_path / "t").records) == 1
