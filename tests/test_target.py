"""Targets answer alike wherever they run, leave the caller's things alone, and tell what they did where."""

import functools
import random
import time

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from softlookup.checker import wire
from softlookup.checker.callee import FunctionCallee
from softlookup.checker.calling import make_call, spread
from softlookup.checker.calls import Answer, Backward, Call, Failure, Recorded
from softlookup.checker.guard import TargetError
from softlookup.checker.sketching import sketch_of
from softlookup.checker.target import LocalTarget, open_file

SUBJECT = '''
"""A file like those that people write."""
import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import einops
import torch
import torch.nn as nn
import torch.nn.functional as F
from sibling import double


@dataclass
class Pair:
    output: torch.Tensor
    weights: torch.Tensor


Both = namedtuple("Both", "output weights")


def attend(q, k, v, /, allowed_mask=None, *, scale: float | None = None, **rest):
    """Look up v.

    allowed_mask: True = may look
    """
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(q.shape[-1])
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return weights @ v


def with_einops(q, k, v):
    q = einops.rearrange(q, "b h t d -> b t h d")
    scores = einops.einsum(q, k, "b i h d, b h j d -> b h i j")
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(scores, -1), v)


class Layer(nn.Module):
    """One head."""

    def __init__(self, d_model: int, bias=True):
        super().__init__()
        self.to_q = nn.Linear(d_model, d_model, bias=bias)
        self.drop = nn.Dropout(0.5)
        self.soft = nn.Softmax(dim=-1)

    def forward(self, x, attention_mask=None):
        q = self.to_q(x)
        return self.drop(
            self.soft(q @ x.mT)
        ) @ x

    def project(self, x):
        return self.to_q(x)

    @staticmethod
    def half(x):
        return x / 2


class Caller:
    def __init__(self, factor=3):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


@dataclass
class Parameters:
    n: int


triple = Caller()
ready = Layer(4)
arrow = lambda x: x + 1


def pair(x):
    return Pair(x, x + 1)


def both(x):
    return Both(x, x + 1)


def output_like(x):
    return OrderedDict(last_hidden_state=x, nothing=None, other=[Caller(), (1, 2.5, "a")])


def siblings(x):
    return double(x)


def fails(x):
    return attend(x, x, torch.ones(7, 7))


if __name__ == "__main__":
    raise SystemExit("a guarded main must not run")
'''


def line_of(text):
    """Line of the subject on which this text stands."""
    assert SUBJECT.count(text) == 1, text
    return SUBJECT[: SUBJECT.index(text)].count("\n") + 1


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subject")
    (folder / "sibling.py").write_text("def double(x):\n    return x + x\n")
    (folder / "subject.py").write_text(SUBJECT)
    with open_file(folder / "subject.py", timeout=240) as session:
        yield session
    assert not list(folder.glob("__pycache__")), "checking a file leaves nothing beside it"


def ask(session, name, *args, init=None, **options):
    (answer,) = session.target(name, init).perform([Call(args, **options)])
    assert answer.failure is None, answer.failure
    return answer


def here(function, *args, **options):
    """Make one call in this process."""
    (answer,) = LocalTarget(function).perform([Call(args, **options)])
    return answer


def qkv(B=2, H=3, T=4, d=5):
    torch.manual_seed(7)
    return torch.randn(B, H, T, d), torch.randn(B, H, T, d), torch.randn(B, H, T, d)


# What the file holds


def test_only_what_the_file_defines_is_listed_in_order(session):
    listed = [(sketch.name, sketch.kind) for sketch in session.sketches()]
    assert listed == [
        ("Pair", "class"),
        ("Both", "class"),
        ("attend", "function"),
        ("with_einops", "function"),
        ("Layer", "class"),
        ("Caller", "class"),
        ("Parameters", "class"),
        ("triple", "instance"),
        ("ready", "instance"),
        ("arrow", "function"),
        ("pair", "function"),
        ("both", "function"),
        ("output_like", "function"),
        ("siblings", "function"),
        ("fails", "function"),
    ]


def test_a_function_is_described_by_its_signature(session):
    (sketch,) = [sketch for sketch in session.sketches() if sketch.name == "attend"]
    assert [(p.name, p.kind, p.required, p.default, p.annotation) for p in sketch.parameters] == [
        ("q", "positional-only", True, "", ""),
        ("k", "positional-only", True, "", ""),
        ("v", "positional-only", True, "", ""),
        ("allowed_mask", "positional", False, "None", ""),
        ("scale", "keyword-only", False, "None", "float | None"),
        ("rest", "**kwargs", False, "", ""),
    ]
    assert sketch.line == line_of("def attend")
    assert sketch.file.endswith("subject.py")
    assert sketch.doc == "Look up v.\n\nallowed_mask: True = may look"
    assert sketch.source.startswith("def attend(q, k, v, /")
    assert sketch.bases == ()


def test_a_module_class_is_described_by_forward_and_constructor(session):
    (sketch,) = [sketch for sketch in session.sketches() if sketch.name == "Layer"]
    assert [p.name for p in sketch.parameters] == ["x", "attention_mask"]
    assert [(p.name, p.required, p.annotation) for p in sketch.init_parameters] == [
        ("d_model", True, "int"),
        ("bias", False, ""),
    ]
    assert sketch.bases == ("torch.nn.modules.module.Module",)
    assert sketch.line == line_of("class Layer")
    assert sketch.doc == "One head."
    assert "def project" in sketch.source


def test_an_instance_is_described_by_its_call(session):
    sketch = session.target("triple").sketch
    assert (sketch.name, sketch.kind, [p.name for p in sketch.parameters]) == ("triple", "instance", ["x"])
    assert sketch.line == line_of("class Caller")


def test_a_decorated_function_stands_where_its_def_stands():
    @torch.no_grad()
    @functools.lru_cache
    def decorated(q):
        return q

    assert sketch_of(decorated).line == sketch_of(decorated).source.count("@") + (
        decorated.__wrapped__.__wrapped__.__code__.co_firstlineno
    )


def test_a_function_written_in_c_is_described_by_its_docstring():
    sketch = LocalTarget(F.scaled_dot_product_attention).sketch
    assert (sketch.name, sketch.kind, sketch.file) == ("scaled_dot_product_attention", "function", "")
    names = [(p.name, p.required) for p in sketch.parameters[:4]]
    assert names == [("query", True), ("key", True), ("value", True), ("attn_mask", False)]


def test_a_function_written_in_c_without_signature_has_no_parameters():
    assert LocalTarget(torch._C._nn.gelu_).sketch.parameters == ()


# How targets are picked and built


@pytest.mark.parametrize(
    ("name", "init", "expected"),
    [
        ("triple", None, 6.0),
        ("Caller", None, 6.0),
        ("Caller", {"factor": 5}, 10.0),
        ("arrow", None, 3.0),
        ("siblings", None, 4.0),
        ("Layer.half", None, 1.0),
    ],
)
def test_every_kind_of_name_can_be_called(session, name, init, expected):
    assert torch.equal(
        ask(session, name, torch.full((2,), 2.0), init=init).result, torch.full((2,), expected)
    )


def test_a_method_runs_on_an_instance_built_for_it(session):
    answer = ask(session, "Layer.project", torch.zeros(2, 6), init={"d_model": 6, "bias": False})
    assert torch.equal(answer.result, torch.zeros(2, 6))
    assert [p.name for p in session.target("Layer.project", {"d_model": 6}).sketch.parameters] == ["x"]


def test_a_module_is_built_in_evaluation_mode(session):
    x = torch.randn(2, 4, 6)
    first, second = session.target("Layer", {"d_model": 6}).perform([Call((x,), seed=1), Call((x,), seed=2)])
    assert torch.equal(first.result, second.result)


@pytest.mark.parametrize(
    ("name", "init", "words"),
    [
        ("missing", None, "no target missing: AttributeError"),
        ("math", None, "no target math: TypeError: it cannot be called"),
    ],
)
def test_a_name_that_cannot_be_had_is_one_line(session, name, init, words):
    with pytest.raises(TargetError, match=words) as caught:
        session.target(name, init)
    assert "\n" not in str(caught.value)


def test_a_class_that_cannot_be_built_says_which_argument(session):
    with pytest.raises(TargetError, match="Layer takes no argument 'width'") as caught:
        session.target("Layer", {"width": 6})
    assert "did you mean d_model?" in str(caught.value)


# What comes back


def test_the_child_answers_as_this_process_does(session):
    q, k, v = qkv()
    mask = torch.ones(4, 4).tril().bool()
    answer = ask(session, "attend", q, k, v, kwargs={"allowed_mask": mask})
    torch.testing.assert_close(answer.result, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def test_named_results_become_plain_ones(session):
    x = torch.ones(2)
    assert isinstance(ask(session, "both", x).result, tuple)
    assert list(ask(session, "pair", x).result) == ["output", "weights"]
    like = ask(session, "output_like", x).result
    assert list(like) == ["last_hidden_state", "nothing", "other"]
    assert like["nothing"] is None
    assert like["other"] == ["<softlookup_target.Caller>", (1, 2.5, "a")]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: torch.ones(2) * 1j, "<torch.complex64 tensor>"),
        (lambda: torch.ones(2, device="meta"), "<torch.float32 tensor>"),
        (object, "<builtins.object>"),
        (lambda: {1, 2}, "<builtins.set>"),
        (lambda: (x for x in ()), "<builtins.generator>"),
    ],
)
def test_what_has_no_plain_form_is_named_by_its_class(make, name):
    assert here(make).result == name


def test_sparse_results_become_dense():
    answer = LocalTarget(lambda: torch.eye(3).to_sparse()).perform([Call()])[0]
    assert torch.equal(answer.result, torch.eye(3))


def test_an_exception_is_an_answer_with_the_deepest_line_of_the_file(session):
    (answer,) = session.target("fails").perform([Call((torch.ones(3, 3),))])
    assert answer.failure.kind == "RuntimeError"
    assert "mat1 and mat2" in answer.failure.message
    assert answer.failure.line == line_of("return weights @ v")
    assert answer.result is None


def test_an_interrupt_by_the_user_is_not_swallowed_here():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalTarget(interrupted).perform([Call()])


def test_what_is_not_callable_is_refused():
    with pytest.raises(TargetError, match="expected a callable or a module, got a int"):
        LocalTarget(3)


def test_a_hundred_small_calls_cost_little_more_than_the_calls(session):
    q, k, v = qkv()
    target = session.target("attend")
    calls = [Call((q, k, v)) for _ in range(100)]
    target.perform(calls)
    start = time.perf_counter()
    answers = target.perform(calls)
    assert len(answers) == 100
    assert time.perf_counter() - start < 1.0  # about 0.03 s; generous, for a busy machine


# What is handed over


def test_the_callers_tensors_are_never_touched_and_the_change_is_told():
    def meddle(q, k, mask=None):
        q.mul_(2)
        mask[0] = False
        return q

    q, k, mask = torch.ones(3), torch.ones(3), torch.ones(3, dtype=torch.bool)
    answer = LocalTarget(meddle).perform([Call((q, k), {"mask": mask})])[0]
    assert answer.changed == (0, "mask")
    assert torch.equal(q, torch.ones(3))
    assert mask.all()


def test_a_change_of_shape_or_to_nan_is_a_change_and_nan_that_stays_is_none():
    def reshape(q, k, v):
        q.unsqueeze_(0)
        k[0] = float("nan")

    nan = torch.tensor([float("nan"), 1.0])
    assert LocalTarget(reshape).perform([Call((torch.ones(2), torch.ones(2), nan))])[0].changed == (0, 1)


def test_a_tensor_inside_a_list_is_copied_too():
    given = torch.ones(2)
    answer = LocalTarget(lambda pair: pair[0].zero_()).perform([Call(([given, given],))])[0]
    assert answer.changed == (0,)
    assert torch.equal(given, torch.ones(2))


def test_one_tensor_given_twice_arrives_as_one(session):
    x = torch.ones(2)
    assert LocalTarget(lambda q, k: q is k).perform([Call((x, x))])[0].result is True
    assert LocalTarget(lambda q, k: q is k).perform([Call((x, x.clone()))])[0].result is False


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 4, 5), (4, 5), (1, 5), (2, 1, 1, 4), (5,), (2, 3, 1, 4)])
def test_strided_arguments_have_the_same_values_and_are_not_contiguous(shape):
    tensor = torch.randn(shape)
    assert not spread(tensor).is_contiguous()
    assert torch.equal(spread(tensor), tensor)
    seen = LocalTarget(lambda x: (x.is_contiguous(), x)).perform([Call((tensor,), strided=True)])[0].result
    assert seen[0] is False
    assert torch.equal(seen[1], tensor)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
def test_what_is_always_contiguous_is_handed_over_as_it_is(shape):
    assert torch.equal(spread(torch.ones(shape)), torch.ones(shape))


def test_the_seed_decides_what_is_drawn(session):
    target = LocalTarget(lambda: torch.rand(3))
    one, same, other = target.perform([Call(seed=5), Call(seed=5), Call(seed=6)])
    assert torch.equal(one.result, same.result)
    assert not torch.equal(one.result, other.result)


# Gradients


@pytest.mark.parametrize("strided", [False, True])
def test_gradients_are_those_of_the_weighted_sum(session, strided):
    q, k, v = qkv()
    cotangent = torch.randn(2, 3, 4, 5)
    answer = ask(session, "attend", q, k, v, backward=Backward((), cotangent, (0, 2)), strided=strided)
    q.requires_grad_(), v.requires_grad_()
    expected = torch.autograd.grad((F.scaled_dot_product_attention(q, k, v) * cotangent).sum(), (q, v))
    torch.testing.assert_close((answer.gradients[0], answer.gradients[2]), expected)
    assert set(answer.gradients) == {0, 2}
    assert answer.result.requires_grad is False


def test_gradients_of_a_part_of_the_result_by_position_and_name():
    target = LocalTarget(lambda q, w: {"all": (q, q * w)})
    asked = Backward(("all", 1), torch.tensor([1.0, 10.0]), ("w",))
    answer = target.perform([Call((torch.tensor([3.0, 4.0]),), {"w": torch.ones(2)}, backward=asked)])[0]
    assert torch.equal(answer.gradients["w"], torch.tensor([3.0, 40.0]))


def test_an_argument_without_connection_has_no_gradient():
    asked = Backward((), torch.ones(2), (0, 1))
    only_first = LocalTarget(lambda q, k: q * 2).perform(
        [Call((torch.ones(2), torch.ones(2)), backward=asked)]
    )[0]
    assert torch.equal(only_first.gradients[0], torch.full((2,), 2.0))
    assert only_first.gradients[1] is None
    detached = here(lambda q, k: (q * k).detach(), torch.ones(2), torch.ones(2), backward=asked)
    assert detached.gradients == {0: None, 1: None}


def test_changing_an_argument_in_place_does_not_forbid_gradients():
    def in_place(q):
        return q.mul_(3)

    answer = LocalTarget(in_place).perform(
        [Call((torch.ones(2),), backward=Backward((), torch.ones(2), (0,)))]
    )[0]
    assert torch.equal(answer.gradients[0], torch.full((2,), 3.0))
    assert answer.changed == (0,)


def test_gradients_are_off_unless_asked_for():
    weight = nn.Parameter(torch.ones(2))
    seen = LocalTarget(lambda q: (torch.is_grad_enabled(), q * weight)).perform([Call((torch.ones(2),))])[0]
    assert seen.result[0] is False


def test_a_failing_backward_is_an_answer():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("no way back")

    answer = here(Broken.apply, torch.ones(2), backward=Backward((), torch.ones(2), (0,)))
    assert (answer.failure.kind, answer.failure.message) == ("ValueError", "no way back")


# The user's own module


class Restless(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("calls", torch.zeros(1))
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.Identity().eval()
        self.cache = []
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.weight.data.mul_(2)
        self.cache.append(x)
        self.last = x
        return self.drop(x)


def test_nothing_of_the_users_module_changes():
    module = Restless()
    cache = module.cache
    target = LocalTarget(module)
    first, second = target.perform([Call((torch.ones(3),)), Call((torch.ones(3),))])
    assert torch.equal(first.result, torch.ones(3))  # in evaluation mode nothing is dropped
    assert torch.equal(second.result, torch.ones(3))
    assert (module.training, module.drop.training, module.frozen.training) == (True, True, False)
    assert torch.equal(module.weight, torch.ones(3))
    assert torch.equal(module.calls, torch.zeros(1))
    assert (module.cache, module.last) == ([], None)
    assert module.cache is cache
    assert module.weight.grad is None


def test_a_bound_method_and_a_partial_lead_to_their_module():
    for function in (Restless().forward, functools.partial(Restless(), torch.ones(3))):
        args = () if isinstance(function, functools.partial) else (torch.ones(3),)
        assert torch.equal(LocalTarget(function).perform([Call(args)])[0].result, torch.ones(3))


def test_the_random_states_of_the_process_stay():
    states = torch.get_rng_state(), random.getstate()
    LocalTarget(lambda: (torch.rand(3), random.random())).perform([Call(seed=3)])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


# The record


def record_of(session, name, *args, **options):
    return ask(session, name, *args, record=True, **options)


def test_each_operation_is_recorded_once_with_its_line_and_shapes(session):
    q, k, v = qkv()
    mask = torch.ones(4, 4).tril().bool()
    answer = record_of(session, "attend", q, k, v, kwargs={"allowed_mask": mask})
    scores = (2, 3, 4, 4)
    fill = line_of("scores = scores.masked_fill")
    assert [(r.op, r.line, r.inputs, r.outputs) for r in answer.recorded] == [
        ("transpose", line_of("scores = q @ k"), ((2, 3, 4, 5),), ((2, 3, 5, 4),)),
        ("matmul", line_of("scores = q @ k"), ((2, 3, 4, 5), (2, 3, 5, 4)), (scores,)),
        ("div", line_of("scores = scores / math"), (scores,), (scores,)),
        ("bitwise_not", fill, ((4, 4),), ((4, 4),)),
        ("masked_fill", fill, (scores, (4, 4)), (scores,)),
        ("softmax", line_of("weights = F.softmax"), (scores,), (scores,)),
        ("matmul", line_of("return weights @ v"), (scores, (2, 3, 4, 5)), ((2, 3, 4, 5),)),
    ]
    div, fill, softmax = answer.recorded[2], answer.recorded[4], answer.recorded[5]
    assert div.numbers == pytest.approx((5**0.5,))
    assert fill.numbers == (float("-inf"),)
    assert (softmax.options, softmax.numbers) == ({"dim": "-1"}, (-1.0,))
    assert {r.dtype for r in answer.recorded if r.op != "bitwise_not"} == {"float32"}


def test_the_record_says_what_flows_where(session):
    q, k, v = qkv()
    answer = record_of(session, "attend", q, k, v)
    transpose, first, div, softmax, last = answer.recorded
    assert transpose.reads == (answer.arguments[1],)
    assert first.reads == (answer.arguments[0], *transpose.writes)
    assert div.reads == first.writes
    assert softmax.reads == div.writes
    assert last.reads == (*softmax.writes, answer.arguments[2])
    assert answer.result_serials == last.writes
    assert len(set(answer.arguments.values())) == 3


def test_einops_is_recorded_on_the_line_that_calls_it(session):
    q, k, v = qkv()
    answer = record_of(session, "with_einops", q, k, v)
    lines = {(r.op, r.line) for r in answer.recorded}
    assert answer.recorded[0].line == line_of("q = einops.rearrange")
    assert ("einsum", line_of("scores = einops.einsum")) in lines
    assert ("einsum", line_of('torch.einsum("bhij')) in lines
    assert ("softmax", line_of('torch.einsum("bhij')) in lines
    assert answer.recorded[-1].options["equation"] == "bhij,bhjd->bhid"


def test_layers_of_a_module_are_recorded_on_the_users_lines(session):
    x = torch.randn(2, 4, 6)
    answer = record_of(session, "Layer", x, init={"d_model": 6})
    ops = {r.op: r.line for r in answer.recorded}
    assert ops["linear"] == line_of("q = self.to_q(x)")
    assert ops["softmax"] == line_of("self.soft(q @ x.mT)")
    assert ops["mT"] == line_of("self.soft(q @ x.mT)")
    assert answer.recorded[-1].op == "matmul"


def recorded(function, *args, **kwargs):
    answer = LocalTarget(function).perform([Call(args, kwargs, record=True)])[0]
    assert answer.failure is None, answer.failure
    return answer


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: x @ x, "matmul"),
        (lambda x: torch.matmul(x, x), "matmul"),
        (lambda x: x * 2, "mul"),
        (lambda x: 2 * x, "mul"),
        (lambda x: torch.multiply(x, x), "mul"),
        (lambda x: x / 2, "div"),
        (lambda x: 2 / x, "div"),
        (lambda x: torch.true_divide(x, 2), "div"),
        (lambda x: x.div_(2), "div_"),
        (lambda x: x + 1, "add"),
        (lambda x: 1 + x, "add"),
        (lambda x: 1 - x, "sub"),
        (lambda x: x.sub(1), "sub"),
        (lambda x: x.masked_fill(x > 0, 1.0), "masked_fill"),
        (lambda x: x.masked_fill_(x > 0, 1.0), "masked_fill_"),
        (lambda x: x.softmax(-1), "softmax"),
        (lambda x: torch.softmax(x, -1), "softmax"),
        (lambda x: F.softmax(x, -1), "softmax"),
        (nn.Softmax(-1), "softmax"),
        (lambda x: F.scaled_dot_product_attention(x, x, x), "scaled_dot_product_attention"),
        (lambda x: torch.einsum("ij,jk->ik", x, x), "einsum"),
        (lambda x: x**2, "pow"),
        (lambda x: -x, "neg"),
        (lambda x: torch.where(x > 0, x, 0.0), "where"),
        (lambda x: torch.ones(2, 2).tril(), "tril"),
        (lambda x: x[0], "__getitem__"),
    ],
)
def test_every_spelling_of_an_operation_has_one_name(function, op):
    assert recorded(function, torch.ones(3, 3)).recorded[-1].op == op


def test_augmented_assignment_is_the_operation_in_place():
    def grow(x):
        x += 1
        x *= 2
        x /= 3
        x -= 4
        return x

    assert [r.op for r in recorded(grow, torch.ones(2)).recorded] == ["add_", "mul_", "div_", "sub_"]


def test_a_change_in_place_gives_the_tensor_a_fresh_number():
    def in_place(x):
        y = x * 2
        y.add_(1)
        return y * 3

    double, add, last = recorded(in_place, torch.ones(2)).recorded
    assert add.reads == double.writes
    assert last.reads == add.writes
    assert add.writes != double.writes


def test_a_change_through_a_view_or_an_index_reaches_the_base():
    def through(x):
        y = x * 2
        y[0] = 1.0
        y.t().mul_(2)
        return y + 0

    double, index, turn, change, last = recorded(through, torch.ones(2, 2)).recorded
    assert (index.op, index.reads[0], turn.reads) == ("__setitem__", *double.writes, index.writes)
    assert change.op == "mul_"
    assert last.reads == change.writes


def test_numbers_are_taken_from_arguments_keywords_and_tensors_of_no_dimension():
    def numbers(x):
        y = torch.clamp(x, min=-3, max=7.5)
        y = y / torch.tensor(8.0)
        return y.view(2, 3).sum((0, 1), keepdim=True)

    clamp, _, div, view, total = recorded(numbers, torch.ones(6)).recorded
    assert clamp.numbers == (-3.0, 7.5)
    assert div.numbers == (8.0,)
    assert view.numbers == (2.0, 3.0)
    assert (total.numbers, total.options) == ((0.0, 1.0), {"keepdim": "True"})


def test_what_returns_no_tensor_and_changes_none_is_left_out():
    def look(x):
        assert x.dim() == 2
        assert x.shape[0] == x.size(0) == len(x)
        assert x.is_contiguous()
        assert x.dtype is torch.float32
        return x.sum().item()

    assert [r.op for r in recorded(look, torch.ones(2, 2)).recorded] == ["sum"]


def test_a_helper_of_the_same_file_is_the_line_and_one_of_another_file_is_not():
    assert recorded(uses_helper, torch.ones(2)).recorded[0].line == helper.__code__.co_firstlineno + 1
    (record,) = recorded(uses_library, torch.ones(2, 2), torch.ones(2)).recorded
    assert record.line == uses_library.__code__.co_firstlineno + 1


def helper(x):
    return x * 2


def uses_helper(x):
    return helper(x)


def uses_library(x, y):
    return nn.functional.cosine_similarity(x, y)


def test_recording_stops_at_its_limit_and_the_call_goes_on(monkeypatch):
    monkeypatch.setattr("softlookup.checker.recorder.MOST_RECORDS", 10)

    def many(x):
        for _ in range(50):
            x = x + 1
        return x

    answer = recorded(many, torch.zeros(1))
    assert len(answer.recorded) == 10
    assert answer.result.item() == 50


def test_a_target_that_fails_only_while_it_is_watched_is_called_again_unwatched():
    def shy(x):
        y = x * 2
        if torch.overrides._get_current_function_mode_stack():
            raise RuntimeError("no watching")
        return y

    answer = here(shy, torch.ones(1), record=True)
    assert (answer.failure, answer.result.item(), [r.op for r in answer.recorded]) == (None, 2.0, ["mul"])


def test_recording_changes_no_result(session):
    q, k, v = qkv()
    plain, noted = session.target("attend").perform([Call((q, k, v)), Call((q, k, v), record=True)])
    assert torch.equal(plain.result, noted.result)
    assert plain.recorded == ()


# The wire


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3, 4)])
def test_every_tensor_survives_the_way(dtype, shape):
    tensor = (torch.randn(shape) * 3).to(dtype)
    tensors = wire.Tensors()
    written = wire.write_value([tensor, tensor.clone(), tensor], tensors)
    read = wire.read_value(written, wire.unpack_tensors(tensors.pack()))
    assert all(one.dtype == dtype and one.shape == tensor.shape for one in read)
    assert all(torch.equal(one.double(), tensor.double()) for one in read)
    assert read[0] is read[2]
    assert read[0] is not read[1]


def test_values_of_every_kind_survive_the_way(session):
    value = {
        "a": (1, 2.5, None, True, "x"),
        3: [float("inf"), {}],
        "t": torch.float16,
        "d": torch.device("cpu"),
    }
    tensors = wire.Tensors()
    assert wire.read_value(wire.write_value(value, tensors), []) == value
    assert ask(session, "arrow", torch.tensor([float("-inf")])).result.item() == float("-inf")


def test_a_call_survives_the_way():
    call = Call(
        (torch.ones(2), 3), {"m": None}, Backward((0, "x"), torch.zeros(2), (0, "m")), True, True, True, 9
    )
    (read,) = wire.read_calls(*wire.write_calls([call]))
    assert torch.equal(read.args[0], call.args[0])
    assert (read.args[1], read.kwargs, read.record, read.strided, read.training, read.seed) == (
        3,
        {"m": None},
        True,
        True,
        True,
        9,
    )
    assert (read.backward.path, read.backward.wrt) == ((0, "x"), (0, "m"))


def test_an_answer_survives_the_way():
    record = Recorded("softmax", 3, ((2,),), ((2,),), (1.0,), {"dim": "0"}, (1, 2), (3,), "float32")
    answer = Answer("x", Failure("E", "m", 4), (0, "mask"), {0: None}, (record,), {0: 1, "mask": 2}, (3,))
    assert wire.read_answer(*wire.write_answer(answer)) == answer


def test_what_cannot_travel_is_refused_before_it_is_sent(session):
    with pytest.raises(TypeError, match="a object cannot be handed to a child process"):
        session.target("arrow").perform([Call((object(),))])
    assert ask(session, "arrow", torch.ones(1)).result.item() == 2


def test_a_line_number_needs_the_file():
    def fails():
        raise ValueError("x")

    assert make_call(FunctionCallee(fails), Call(), "elsewhere.py").failure.line is None
    assert (
        make_call(FunctionCallee(fails), Call(), __file__).failure.line == fails.__code__.co_firstlineno + 1
    )


def test_a_class_whose_instances_cannot_be_called_has_no_parameters(session):
    (sketch,) = [sketch for sketch in session.sketches() if sketch.name == "Parameters"]
    assert sketch.parameters == ()
    assert [p.name for p in sketch.init_parameters] == ["n"]


def test_a_file_inside_a_package_may_use_relative_imports(tmp_path):
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "numbers_of_ours.py").write_text("TWO = 2\n")
    subject = package / "subject.py"
    subject.write_text("from ..numbers_of_ours import TWO\n\n\ndef times_two(x):\n    return x * TWO\n")
    with open_file(subject, timeout=60) as session:
        assert [sketch.name for sketch in session.sketches()] == ["times_two"]
        assert ask(session, "times_two", torch.ones(1)).result.item() == 2
