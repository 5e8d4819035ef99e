"""The watch as a callback of transformers' Trainer and of Lightning."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any

from softlookup.live.outlet import Outlet
from softlookup.terms import SoftlookupError

_OUTLET = ("save_to", "resume", "log_to", "per_head", "show")  # options that are not those of ``watch``


def trainer_callback(**options: Any) -> Any:
    """Return a ``TrainerCallback`` of transformers that watches attention while the Trainer trains.

    options: those of ``watch``, and save_to, resume, log_to, per_head and show of ``Outlet``

    A step of the watch is one step of the optimizer. ``callback.trace`` is the trace, also after training.
    Trainer tells its callbacks nothing of an exception: the watch then ends with the next training, when the
    callback is gone, or with the block in ``with trainer_callback() as callback:``.

    Raises: SoftlookupError when transformers is not installed, or nothing can be logged to log_to.
    """
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise _not_installed("trainer_callback", "transformers", "softlookup[transformers]") from error

    class AttentionWatch(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.session = _Session(options)
            weakref.finalize(self, self.session.close)

        @property
        def trace(self) -> Any:
            return self.session.trace

        def __enter__(self) -> AttentionWatch:
            return self

        def __exit__(self, *error: Any) -> None:
            self.session.close()

        def on_train_begin(self, args: Any, state: Any, control: Any, **around: Any) -> None:
            self.session.open(around["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **around: Any) -> None:
            self.session.end_step(state.global_step)

        def on_evaluate(self, args: Any, state: Any, control: Any, **around: Any) -> None:
            self.session.outlet.drop()

        def on_train_end(self, args: Any, state: Any, control: Any, **around: Any) -> None:
            self.session.close()

    return AttentionWatch()


def lightning_callback(**options: Any) -> Any:
    """Return a Lightning ``Callback`` that watches attention while the Trainer fits.

    options: those of ``watch``, and save_to, resume, log_to, per_head and show of ``Outlet``. Without
        log_to the loggers of the Trainer get the numbers

    A step of the watch is one step of the optimizer. ``callback.trace`` is the trace, also after training.
    The watch ends with training, also by an exception.

    Raises: SoftlookupError when Lightning is not installed, or nothing can be logged to log_to.
    """
    callback = _lightning()

    class AttentionWatch(callback):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            self.session = _Session(options)
            self._seen = 0  # steps of the optimizer

        @property
        def trace(self) -> Any:
            return self.session.trace

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if "log_to" not in options:
                self.session.outlet = self.session.new_outlet(log_to=list(trainer.loggers))
            self._seen = trainer.global_step
            self.session.open(pl_module)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if trainer.global_step != self._seen:  # else gradients are accumulated
                self._seen = trainer.global_step
                self.session.end_step(trainer.global_step)

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            self.session.outlet.drop()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.session.close()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.session.close()

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            self.session.close()

    return AttentionWatch()


class _Session:
    """A watch that is opened and closed by events instead of a block."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._handing_on = {name: value for name, value in options.items() if name in _OUTLET}
        self._watching = {name: value for name, value in options.items() if name not in _OUTLET}
        self.outlet = self.new_outlet()
        self.trace: Any = None
        self._open = ExitStack()

    def new_outlet(self, **more: Any) -> Outlet:
        return Outlet(**self._handing_on, **more)

    def open(self, model: Any) -> None:
        from softlookup.live.watching import watch

        self.close()  # a training that an exception has ended
        theirs = self._watching.get("on_record")

        def on_record(record: Any) -> None:
            self.outlet.take(record)
            if theirs is not None:
                theirs(record)

        with ExitStack() as stack:  # what was opened is closed again when the rest cannot be
            self.trace = stack.enter_context(watch(model, **{**self._watching, "on_record": on_record}))
            stack.enter_context(self.outlet.following(self.trace, {"model": type(model).__name__}))
            self.trace.step()  # from here on steps end where the optimizer's do; its first one is 1
            self._open = stack.pop_all()

    def end_step(self, step: int) -> None:
        self.outlet.end_step(step)
        self.trace.step()

    def close(self) -> None:
        self._open.close()


def _lightning() -> Any:
    """Return the class Callback of the Lightning that is installed: it has two names."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError as error:
            raise _not_installed("lightning_callback", "lightning", "softlookup[lightning]") from error
    return Callback


def _not_installed(doing: str, name: str, wanted: str) -> SoftlookupError:
    return SoftlookupError(
        f"{doing}: {name} is not installed.",
        expected=f"a package {name}",
        got="none",
        hint=f"pip install {wanted}",
    )
