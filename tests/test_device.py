"""softlookup check --device: where a file's attention is called."""

import pytest
import torch
from click.testing import CliRunner

from softlookup.checker.callee import FunctionCallee, ModuleCallee, placed
from softlookup.checker.devices import devices_seen, require_device
from softlookup.checker.files import check_file
from softlookup.cli import main
from softlookup.terms import Contract, SoftlookupError

SAYS_WHERE = """
def attend(q, k, v):
    if q.device.type != "cpu":
        raise RuntimeError("not where it was asked for")
    return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v
"""


def test_a_file_is_checked_on_the_cpu_when_the_cpu_is_asked_for(tmp_path):
    file = tmp_path / "attention.py"
    file.write_text(SAYS_WHERE)
    assert check_file(str(file), contract=Contract(), device="cpu").clean


@pytest.mark.parametrize("name", ["meta", "nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name, tmp_path):
    file = tmp_path / "attention.py"
    file.write_text(SAYS_WHERE)
    with pytest.raises(SoftlookupError) as refused:
        require_device(name)
    assert f"got:      {name!r}" in str(refused.value)
    assert f"one of {', '.join(devices_seen())}" in str(refused.value)
    run = CliRunner().invoke(main, ["check", str(file), "--device", name])
    assert run.exit_code == 2
    assert "the device cannot be used" in run.output


def test_a_module_is_moved_and_a_function_is_told_where_its_tensors_have_to_be():
    # "meta" stands for another device: every machine has it.
    module = torch.nn.Linear(2, 2)
    assert placed(ModuleCallee(module, module), module, "meta").device().type == "meta"
    assert module.weight.device.type == "meta"

    def attend(q, k, v):
        return v

    assert placed(FunctionCallee(attend), attend, "meta").device().type == "meta"


def test_what_is_bound_to_the_cpu_is_not_called_elsewhere():
    class OnTheCpu(FunctionCallee):
        def device(self):
            return torch.device("cpu")

    with pytest.raises(ValueError, match="only be called on cpu"):
        placed(OnTheCpu(len), len, "meta")
