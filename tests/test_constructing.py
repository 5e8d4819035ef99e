"""Modules are built from their classes alone: every argument by its name, its annotation or its default."""

from __future__ import annotations

import copy
import enum
import functools
import inspect
from collections import namedtuple
from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal, TypedDict

import pytest
import torch
from torch import nn

from softlookup.checker.constructing import (
    Built,
    CannotConstructError,
    construct,
    is_factory,
    made,
)
from softlookup.checker.constructor_names import Surroundings, meaning_of

n_embd = 40  # a file's own settings, as scripts have them
n_layer = 4


def kept(cls):
    """Let the constructor keep what it is given, and show it as ``got``."""
    inner = cls.__init__

    @functools.wraps(inner)
    def init(self, *args, **kwargs):
        nn.Module.__init__(self)
        bound = inspect.signature(inner).bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.got = {name: value for name, value in bound.arguments.items() if name != "self"}
        inner(self, *args, **kwargs)

    cls.__init__ = init
    return cls


def got(cls, weightless=False, **given):
    return construct(cls, given, weightless).instance.got


# ---------------------------------------------------------------- plain arguments


@kept
class Lucid(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)


@kept
class Annotated(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        assert d_model % h == 0


@kept
class ResidualInside(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.fc = nn.Linear(n_head * d_v, d_model)


@kept
class Vision(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0.0, proj_drop=0.0, qk_scale=None):
        assert dim % num_heads == 0


@kept
class Translation(nn.Module):
    def __init__(self, embed_dim, num_heads, kdim=None, vdim=None, dropout=0.0, bias=True, add_bias_kv=False):
        assert embed_dim % num_heads == 0


@kept
class KeywordOnly(nn.Module):
    def __init__(self, *, features, num_heads, causal=False):
        pass


@kept
class PositionalOnly(nn.Module):
    def __init__(self, d_model, n_heads, /, dropout=0.1):
        pass


@kept
class Grouped(nn.Module):
    def __init__(self, hidden_size: int, num_attention_heads: int, num_key_value_heads: int | None = None):
        assert num_attention_heads % num_key_value_heads == 0


@kept
class GroupsOfQueries(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_groups, dtype=None):
        assert num_heads % num_kv_groups == 0


@kept
class GroupsShareKeys(nn.Module):
    def __init__(self, dim, num_heads, num_groups):
        pass


@kept
class NormalizedChannels(nn.Module):
    def __init__(self, channels, num_heads=1, num_head_channels=-1, num_groups=32):
        self.norm = nn.GroupNorm(num_groups, channels)


@kept
class Course(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        pass


@kept
class Cross(nn.Module):
    def __init__(self, query_dim, context_dim, heads=8, dim_head=64):
        self.to_k = nn.Linear(context_dim, heads * dim_head)


@kept
class CrossOnDemand(nn.Module):
    def __init__(self, query_dim, cross_attention_dim=None, heads=8, dim_head=64):
        pass


@kept
class WidthsOfKeys(nn.Module):
    def __init__(self, query_dim, key_dim, num_units, num_heads):
        self.to_q = nn.Linear(query_dim, num_units)
        self.to_k = nn.Linear(key_dim, num_units)


@kept
class KeysByHead(nn.Module):
    def __init__(self, num_heads, key_dim, value_dim=None):
        self.inner = num_heads * key_dim


@kept
class KeysOfAllHeads(nn.Module):
    def __init__(self, dim_in, dim_k, dim_v, num_heads):
        assert dim_k % num_heads == 0
        self.head = dim_k // num_heads


@kept
class Shown(nn.Module):
    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        pass


@kept
class Local(nn.Module):
    def __init__(self, dim, num_heads, window_size, max_len=5000, num_layers=12):
        pass


@kept
class WindowOfTwo(nn.Module):
    def __init__(self, dim, window_size, num_heads, shift=0):
        self.area = window_size[0] * window_size[1]


@kept
class WindowByDefault(nn.Module):
    def __init__(self, dim, num_heads, window_size=(7, 7)):
        pass


@kept
class WindowOnRequest(nn.Module):
    def __init__(self, dim, num_heads, window_size=None):
        pass


@kept
class NoWindow(nn.Module):
    def __init__(self, dim, num_heads, window=-1):
        pass


@kept
class Buckets(nn.Module):
    def __init__(self, d_model, num_heads, d_kv, relative_attention_num_buckets=32, max_distance=128):
        pass


@kept
class Indexed(nn.Module):
    def __init__(self, d_model, n_heads, layer_idx, max_position_embeddings, rope_theta=500_000.0):
        pass


@kept
class CamelCase(nn.Module):
    def __init__(self, dModel, numHeads, maxLen, dropOut=0.0):
        pass


@kept
class ShortNames(nn.Module):
    def __init__(self, k, heads=8, mask=False):
        assert k % heads == 0


@kept
class Callables(nn.Module):
    def __init__(self, dim, num_heads, norm_layer, act_layer, activation, norm=nn.RMSNorm):
        self.norm = norm_layer(dim)


class Kind(enum.Enum):
    FULL = 1
    LOCAL = 2


@kept
class Choices(nn.Module):
    def __init__(self, dim: int, heads: int, kind: Kind, mode: Literal["plain", "fast"], sigma: float | None):
        pass


@kept
class Switches(nn.Module):
    def __init__(self, dim, heads, qkv_bias, causal, use_flash, batch_first, device, twisted: bool, mask):
        pass


@kept
class StringAnnotations(nn.Module):
    def __init__(self, dim: int, heads: int, extra: str | None, dropout: float = 0.0, *, bias: bool = True):
        pass


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim = dim


@kept
class WithModule(nn.Module):
    def __init__(self, dim, num_heads, position: Rotary):
        pass


PLAIN = [
    (Lucid, {"dim": 48, "heads": 6, "dim_head": 8, "dropout": 0.25}),
    (Annotated, {"h": 6, "d_model": 48, "dropout": 0.25}),
    (ResidualInside, {"n_head": 6, "d_model": 48, "d_k": 8, "d_v": 8, "dropout": 0.25}),
    (
        Vision,
        {
            "dim": 48,
            "num_heads": 6,
            "qkv_bias": False,
            "attn_drop": 0.25,
            "proj_drop": 0.25,
            "qk_scale": None,
        },
    ),
    (
        Translation,
        {"embed_dim": 48, "kdim": None, "vdim": None, "dropout": 0.25, "bias": True, "add_bias_kv": False},
    ),
    (KeywordOnly, {"features": 48, "num_heads": 6, "causal": False}),
    (PositionalOnly, {"d_model": 48, "n_heads": 6, "dropout": 0.25}),
    (Grouped, {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3}),
    (GroupsOfQueries, {"d_in": 48, "d_out": 48, "num_heads": 6, "num_kv_groups": 3, "dtype": None}),
    (GroupsShareKeys, {"dim": 48, "num_heads": 6, "num_groups": 3}),
    (NormalizedChannels, {"channels": 48, "num_heads": 6, "num_head_channels": -1, "num_groups": 8}),
    (
        Course,
        {"d_in": 48, "d_out": 48, "context_length": 40, "dropout": 0.25, "num_heads": 6, "qkv_bias": False},
    ),
    (Cross, {"query_dim": 48, "context_dim": 40, "heads": 6, "dim_head": 8}),
    (CrossOnDemand, {"query_dim": 48, "cross_attention_dim": None}),
    (WidthsOfKeys, {"query_dim": 48, "key_dim": 40, "num_units": 48, "num_heads": 6}),
    (KeysByHead, {"num_heads": 6, "key_dim": 8, "value_dim": None}),
    (KeysOfAllHeads, {"dim_in": 48, "dim_k": 48, "num_heads": 6}),
    (Shown, {"encoder_dim": 40, "decoder_dim": 48, "attention_dim": 48}),
    (Local, {"dim": 48, "num_heads": 6, "window_size": 3, "max_len": 40, "num_layers": 1}),
    (WindowOfTwo, {"dim": 48, "window_size": (3, 3), "num_heads": 6, "shift": 0}),
    (WindowByDefault, {"window_size": (3, 3)}),
    (WindowOnRequest, {"dim": 48, "num_heads": 6, "window_size": 3}),
    (NoWindow, {"window": -1}),
    (Buckets, {"d_kv": 8, "relative_attention_num_buckets": 8, "max_distance": 20}),
    (Indexed, {"layer_idx": 0, "max_position_embeddings": 40, "rope_theta": 500_000.0}),
    (CamelCase, {"dModel": 48, "numHeads": 6, "maxLen": 40, "dropOut": 0.25}),
    (ShortNames, {"k": 48, "heads": 6, "mask": False}),
    (Callables, {"norm_layer": nn.LayerNorm, "act_layer": nn.ReLU, "norm": nn.RMSNorm}),
    (Choices, {"kind": Kind.FULL, "mode": "plain", "sigma": None}),
    (
        Switches,
        {"qkv_bias": True, "causal": False, "use_flash": False, "batch_first": True, "twisted": False},
    ),
    (StringAnnotations, {"dim": 48, "heads": 6, "extra": None, "dropout": 0.25, "bias": True}),
    (nn.MultiheadAttention, {"embed_dim": 48, "num_heads": 6, "kdim": 48, "vdim": 48, "dropout": 0.25}),
]


@pytest.mark.parametrize(("cls", "expected"), PLAIN, ids=[cls.__name__ for cls, _ in PLAIN])
def test_arguments_are_filled_in_by_their_names(cls, expected):
    built = construct(cls, {}).instance
    values = built.got if hasattr(built, "got") else vars(built)
    assert {name: values[name] for name in expected} == expected


def test_an_argument_that_is_a_module_of_the_file_is_built_first():
    position = got(WithModule)["position"]
    assert isinstance(position, Rotary)
    assert position.dim == 8  # what turns heads has the width of a head


# ---------------------------------------------------------------- the ladder of sizes


@kept
class WidthOf64(nn.Module):
    def __init__(self, d_model, num_heads=8):
        assert d_model % 64 == 0, "d_model must be a multiple of 64"


@kept
class PowerOfTwoHeads(nn.Module):
    def __init__(self, dim, heads):
        if heads & (heads - 1):
            raise ValueError("heads must be a power of two")


@kept
class ThreeHeads(nn.Module):
    def __init__(self, dim, heads):
        assert heads == 3


@kept
class NotGrouped(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        assert heads == kv_heads
        assert dim == 48


@kept
class OneKeyHead(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        assert kv_heads == 1


@kept
class OnlyItsDefaults(nn.Module):
    def __init__(self, dim, num_heads=8, window=128):
        assert window % 64 == 0


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (WidthOf64, {"d_model": 64, "num_heads": 4}),
        (PowerOfTwoHeads, {"dim": 64, "heads": 4}),
        (ThreeHeads, {"dim": 24, "heads": 3}),
        (NotGrouped, {"dim": 48, "heads": 6, "kv_heads": 6}),
        (OneKeyHead, {"dim": 32, "heads": 2, "kv_heads": 1}),
        (OnlyItsDefaults, {"dim": 48, "num_heads": 8, "window": 128}),
    ],
)
def test_sizes_are_tried_until_the_constructor_takes_them(cls, expected):
    assert got(cls) == expected


# ---------------------------------------------------------------- configs


@dataclass
class TinyConfig:
    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True


@kept
class FromDataclass(nn.Module):
    def __init__(self, config: TinyConfig):
        assert config.n_embd % config.n_head == 0
        self.register_buffer("mask", torch.ones(config.block_size, config.block_size).tril())


@kept
class BesideDataclass(nn.Module):
    """Without annotation: the one config class of the file that has what is read."""

    def __init__(self, config):
        self.heads, self.bias = config.n_head, config.bias
        self.width, self.vocabulary = config.n_embd, config.vocab_size


@kept
class FromNamespace(nn.Module):
    def __init__(self, cfg, layer_id=None):
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=cfg.use_qkv_bias)
        self.drop = nn.Dropout(cfg.attn_pdrop)
        self.kv_heads = getattr(cfg, "n_kv_heads", None) or cfg.heads
        self.flash = getattr(cfg, "flash", True)
        self.slow = hasattr(cfg, "tempo")
        self.cfg = cfg

    def forward(self, x):
        return self.cfg.block_size, copy.deepcopy(self.cfg).n_embd


@kept
class FromDict(nn.Module):
    def __init__(self, cfg):
        self.width, self.heads = cfg["emb_dim"], cfg["n_heads"]
        self.rate = cfg.get("drop_rate", 0.0)
        self.mode = cfg.get("flavour", "plain")
        self.biased = "qkv_bias" in cfg and cfg["qkv_bias"]


@kept
class FromSections(nn.Module):
    def __init__(self, args):
        self.heads = args.attn.n_head
        self.width = args.model["d_model"]


@dataclass
class HeadConfig:
    n_head: int = 16


@dataclass
class OuterConfig:
    dim: int = 1024
    head: HeadConfig = field(default_factory=HeadConfig)


@kept
class FromNested(nn.Module):
    def __init__(self, config: "OuterConfig"):  # noqa: UP037
        assert config.dim % config.head.n_head == 0


class PretrainedConfig:
    """Has the name by which the family is known."""

    def __init__(self, attn_implementation=None, **kwargs):
        self._attn_implementation = attn_implementation
        self.extras = kwargs


class LikeLibraryConfig(PretrainedConfig):
    model_type = "like"

    def __init__(
        self,
        vocab_size=32000,
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=None,
        head_dim=128,
        attention_dropout=0.0,
        max_position_embeddings=2048,
        sliding_window=None,
        **kwargs,
    ):
        values = dict(locals())
        super().__init__(**kwargs)
        self.values = {
            name: value for name, value in values.items() if type(value) in {int, float, type(None)}
        }


@kept
class FromLibrary(nn.Module):
    def __init__(self, config: LikeLibraryConfig, layer_idx: int):
        pass


class Fields(TypedDict):
    d_model: int
    n_heads: int


@kept
class FromTypedDict(nn.Module):
    def __init__(self, params: Fields):
        self.width = params["d_model"]


SizeConfig = namedtuple("SizeConfig", "d_model n_heads")


@kept
class FromNamedTuple(nn.Module):
    def __init__(self, config: SizeConfig):
        pass


class ScriptConfig:
    hidden_size = 96
    heads = 4


@kept
class FromClassAttributes(nn.Module):
    def __init__(self, config: ScriptConfig):
        self.config = config


@kept
class ConfigByDefault(nn.Module):
    def __init__(self, config: TinyConfig = None, causal=True):
        self.width = config.n_embd


@kept
class FromNeed(nn.Module):
    def __init__(self, config):
        self.sigma = config.n_embd * config.sigma


def test_a_dataclass_is_filled_from_its_fields():
    config = got(FromDataclass)["config"]
    assert (config.n_embd, config.n_head, config.block_size) == (48, 6, 40)
    assert (config.dropout, config.bias, config.vocab_size) == (0.25, True, 50)


def test_a_config_without_annotation_is_the_class_of_the_file_that_has_what_is_read():
    assert isinstance(got(BesideDataclass)["config"], TinyConfig)


def test_a_config_of_no_class_answers_what_it_is_asked():
    built = construct(FromNamespace, {})
    assert built.instance.c_attn.weight.shape == (144, 48)
    assert built.instance.drop.p == 0.25
    assert built.arguments["cfg"] == "cfg(n_embd=48, use_qkv_bias=True, attn_pdrop=0.25, n_kv_heads=3)"


def test_what_such_a_config_does_not_know_falls_back_to_the_default_of_the_reader():
    built = construct(FromNamespace, {}).instance
    assert built.flash is True
    assert built.slow is False


def test_such_a_config_answers_in_forward_and_can_be_copied():
    built = construct(FromNamespace, {}).instance
    assert built(None) == (40, 48)
    assert not [name for name in ("__name__", "__dtype__") if hasattr(built.cfg, name)]


def test_a_config_may_be_read_like_a_dict():
    built = construct(FromDict, {}).instance
    assert (built.width, built.heads, built.rate, built.mode, built.biased) == (48, 6, 0.25, "plain", True)


def test_a_config_may_have_sections():
    built = construct(FromSections, {})
    assert (built.instance.heads, built.instance.width) == (6, 48)
    assert built.arguments == {"args": "args(attn=args.attn(n_head=6), model=args.model(d_model=48))"}


def test_a_config_in_a_config_is_filled_too():
    config = got(FromNested)["config"]
    assert (config.dim, config.head.n_head) == (48, 6)


def test_a_library_config_is_instantiated_with_the_names_it_knows():
    config = got(FromLibrary)["config"]
    assert config._attn_implementation == "eager"
    assert config.values == {
        "vocab_size": 32000,
        "hidden_size": 48,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 8,
        "attention_dropout": 0.25,
        "max_position_embeddings": 40,
        "sliding_window": None,
    }


def test_a_typed_dict_and_a_named_tuple_are_configs():
    assert got(FromTypedDict)["params"] == {"d_model": 48, "n_heads": 6}
    assert got(FromNamedTuple)["config"] == SizeConfig(48, 6)


def test_a_config_that_is_only_class_attributes_is_taken_as_it_is():
    assert got(FromClassAttributes)["config"].hidden_size == 96


def test_a_config_that_is_none_by_default_is_built_when_its_class_is_known():
    assert construct(ConfigByDefault, {}).instance.width == 48


def test_what_is_given_reaches_into_a_config():
    assert got(FromDataclass, n_embd=36)["config"].n_embd == 36
    assert got(FromDataclass, **{"config.n_head": 4})["config"].n_head == 4
    assert got(FromNested, **{"config.head.n_head": 4})["config"].head.n_head == 4
    assert got(FromLibrary, attn_implementation="sdpa")["config"]._attn_implementation == "sdpa"
    assert got(FromClassAttributes, hidden_size=32)["config"].hidden_size == 32
    assert construct(FromNamespace, {"cfg.attn_pdrop": 0.5, "flash": False}).instance.drop.p == 0.5
    assert construct(FromNeed, {"config.sigma": 2}).instance.sigma == 96


def test_a_size_under_its_usual_name_decides_the_sizes_of_a_config():
    config = got(FromDataclass, d_model=36, num_heads=4)["config"]
    assert (config.n_embd, config.n_head) == (36, 4)


# ---------------------------------------------------------------- inheritance and the file's own settings


@kept
class Parent(nn.Module):
    def __init__(self, dim, heads=8):
        pass


class PassesOn(Parent):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class AsksForMore(nn.Module):
    def __init__(self, dim, heads=8):
        super().__init__()
        self.got = (dim, heads)


class AddsItsOwn(AsksForMore):
    def __init__(self, causal=True, **kwargs):
        super().__init__(**kwargs)


class FixesTheRest(AsksForMore):
    def __init__(self, dim, **kwargs):
        super().__init__(dim, heads=4, **kwargs)


@kept
class Swallows(nn.Module):
    def __init__(self, d_model, num_heads, **kwargs):
        pass


class LazyWeights(nn.Module):
    def __init__(self, num_hiddens, num_heads):
        super().__init__()
        self.w_q = nn.LazyLinear(num_hiddens)


@kept
class HeadsOfAScript(nn.Module):
    def __init__(self, num_heads, head_size):
        self.proj = nn.Linear(num_heads * head_size, n_embd)
        self.n_layer = n_layer
        assert num_heads * head_size == n_embd


@kept
class AttributeOfTheSameName(nn.Module):
    def __init__(self, heads, head_size):
        self.n_embd = heads * head_size


def test_a_constructor_that_passes_everything_on_is_filled_like_its_parent():
    assert got(PassesOn) == {"dim": 48, "heads": 6}


def test_arguments_that_only_the_parent_asks_for_are_given_when_it_asks():
    assert got(AddsItsOwn) == (48, 8)
    assert got(FixesTheRest) == (48, 4)


def test_a_dictionary_of_keywords_gets_nothing_of_its_own():
    assert got(Swallows) == {"d_model": 48, "num_heads": 6, "kwargs": {}}
    assert got(Swallows, flavour=3)["kwargs"] == {"flavour": 3}


def test_lazy_weights_stay_lazy():
    assert isinstance(construct(LazyWeights, {}).instance.w_q, nn.LazyLinear)


def test_a_width_that_stands_in_the_file_decides_the_width_of_a_head():
    assert got(HeadsOfAScript) == {"num_heads": 4, "head_size": 10}


def test_an_attribute_called_like_a_setting_of_the_file_is_not_that_setting():
    assert got(AttributeOfTheSameName) == {"heads": 6, "head_size": 8}


# ---------------------------------------------------------------- what is given


def test_what_is_given_wins():
    assert got(Lucid, heads=4, dropout=0.0) == {"dim": 32, "heads": 4, "dim_head": 8, "dropout": 0.0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"dim": 32}, {"dim": 32, "heads": 4, "dim_head": 8}),
        ({"dim": 30}, {"dim": 30, "heads": 6, "dim_head": 5}),
        ({"heads": 5}, {"dim": 40, "heads": 5, "dim_head": 8}),
        ({"dim_head": 4}, {"dim": 24, "heads": 6, "dim_head": 4}),
        ({"dim": 32, "dim_head": 4}, {"dim": 32, "heads": 8, "dim_head": 4}),
        ({"dim": 7, "heads": 1}, {"dim": 7, "heads": 1, "dim_head": 7}),
    ],
    ids=str,
)
def test_the_other_sizes_follow_the_given_one(given, expected):
    assert {name: got(Lucid, **given)[name] for name in expected} == expected


def test_a_none_that_is_given_is_given():
    assert got(Translation, kdim=40, vdim=None)["kdim"] == 40
    assert got(Grouped, num_key_value_heads=2, num_attention_heads=8)["num_key_value_heads"] == 2


# ---------------------------------------------------------------- weightless classes


class Weightless:
    def __init__(self, temperature, attn_dropout=0.1, window_size=4, **other):
        self.got = dict(locals())


class WeightlessSizes:
    def __init__(self, d_model, num_heads, dim, scale, dropout, block_size, window, block_q):
        self.got = dict(locals())


def test_a_class_without_weights_is_filled_for_heads_of_width_8():
    values = got(WeightlessSizes, weightless=True)
    assert (values["d_model"], values["num_heads"], values["dim"]) == (24, 3, 8)
    assert values["scale"] == 8**-0.5
    assert (values["dropout"], values["block_size"], values["window"], values["block_q"]) == (0.0, 512, 3, 4)


def test_a_class_without_weights_keeps_its_defaults():
    values = got(Weightless, weightless=True)
    assert (values["temperature"], values["attn_dropout"], values["window_size"]) == (8**0.5, 0.1, 4)


# ---------------------------------------------------------------- the instance


class Random(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))


def test_the_same_request_builds_the_same_weights():
    torch.manual_seed(1)
    first = construct(Random, {}).instance.weight
    torch.manual_seed(2)
    assert torch.equal(construct(Random, {}).instance.weight, first)


def test_the_random_numbers_of_the_caller_stay_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    construct(Random, {})
    made(make_model)
    assert torch.equal(torch.rand(3), expected)


def test_modules_come_in_eval_mode():
    assert not construct(Random, {}).instance.training
    assert not made(make_model).training


def test_the_arguments_are_reported_as_they_are_written():
    built = construct(Callables, {"dim": 36})
    assert isinstance(built, Built)
    assert built.arguments == {
        "dim": "36",
        "num_heads": "6",
        "norm_layer": "LayerNorm",
        "act_layer": "ReLU",
        "activation": "relu",
    }


# ---------------------------------------------------------------- errors


class Unknown(nn.Module):
    def __init__(self, d_model, gamma_ray):
        super().__init__()


class Fails(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        raise RuntimeError("no weights on this machine\nsecond line")


class NarrowRefused(nn.Module):
    def __init__(self, dim, heads=8):
        raise ValueError(f"{dim} is too narrow for {heads}")


class HungerForMemory(nn.Module):
    def __init__(self, d_model):
        raise MemoryError


def test_an_argument_that_no_name_explains_is_named():
    with pytest.raises(CannotConstructError) as caught:
        construct(Unknown, {})
    assert str(caught.value).splitlines() == [
        "check: Unknown could not be built: no value is known for 'gamma_ray'.",
        "  expected: constructor arguments whose names or annotations tell what they are",
        "  got:      Unknown(d_model, gamma_ray)",
        "  try:      --init gamma_ray=..., or a factory: def make_model(): return Unknown(...)"
        " and then softlookup check test_constructing.py:make_model",
    ]


def test_an_attribute_of_a_config_that_no_name_explains_is_named_in_full():
    with pytest.raises(CannotConstructError, match=r"no value is known for 'config\.sigma'") as caught:
        construct(FromNeed, {})
    assert "--init config.sigma=..." in str(caught.value)


def test_what_a_constructor_raises_is_told_with_its_line():
    with pytest.raises(CannotConstructError) as caught:
        construct(Fails, {})
    raised = inspect.getsourcelines(Fails)[1] + 3
    assert str(caught.value).splitlines() == [
        "check: Fails could not be built: it raised for every set of sizes that was tried.",
        "  expected: a constructor that takes (d_model, num_heads) = (48, 6), (24, 3), (64, 4) or (32, 2)",
        f"  got:      RuntimeError: no weights on this machine, at line {raised}",
        "  try:      --init d_model=..., or a factory: def make_model(): return Fails(...)"
        " and then softlookup check test_constructing.py:make_model",
    ]


def test_the_first_refusal_is_the_one_that_is_told():
    with pytest.raises(CannotConstructError, match="ValueError: 48 is too narrow for 6, at line"):
        construct(NarrowRefused, {})


def test_running_out_of_memory_is_no_matter_of_arguments():
    with pytest.raises(MemoryError):
        construct(HungerForMemory, {})


@pytest.mark.parametrize(
    ("cls", "given", "hint"),
    [
        (Lucid, {"d_model": 32}, "did you mean dim?"),
        (Annotated, {"n_heads": 4}, "did you mean h?"),
        (Lucid, {"dropuot": 0.1}, "did you mean dropout?"),
        (Lucid, {"colour": 32}, "leave colour out"),
        (FromDataclass, {"n_embed_size_": 32}, "leave n_embed_size_ out"),
        (FromDataclass, {"cfg.n_embd": 32}, "leave cfg.n_embd out"),
        (FromNeed, {"config.tau": 3, "config.sigma": 1}, "leave config.tau out"),
    ],
    ids=str,
)
def test_a_name_that_the_constructor_does_not_take_is_refused(cls, given, hint):
    with pytest.raises(CannotConstructError, match="takes no argument") as caught:
        construct(cls, given)
    assert str(caught.value).splitlines()[-1] == f"  try:      {hint}"


def test_the_names_that_can_be_given_are_listed():
    with pytest.raises(CannotConstructError, match="names among dim, heads, dim_head, dropout"):
        construct(Lucid, {"colour": 1})
    with pytest.raises(CannotConstructError, match="names among config, and what is read from config"):
        construct(FromNeed, {"config.sigma": 1, "colour": 1})


# ---------------------------------------------------------------- factories


def make_model():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))


def build_attention(heads=4, *args, **kwargs):
    return Random(4)


def get_it():
    return Random(4)


def create_lucid():
    return Lucid(48)


def small() -> Lucid:
    return Lucid(48)


def written() -> "nn.Module":  # noqa: UP037
    return Lucid(48)


def get_mask():
    return torch.ones(3, 3)


def make_model_of(width):
    return nn.Linear(width, width)


def make_attention() -> torch.Tensor:
    return torch.ones(3)


def build_model() -> None:
    pass


def attend(*args):
    return args


def make_layer():
    raise KeyError("weights.pt")


def make_block():
    return Lucid


@pytest.mark.parametrize("function", [make_model, build_attention, get_it, create_lucid, small, written])
def test_a_function_whose_name_or_annotation_says_that_it_builds_a_module_is_a_factory(function):
    assert is_factory(function)
    assert isinstance(made(function), nn.Module)


@pytest.mark.parametrize(
    "function", [get_mask, make_model_of, make_attention, build_model, attend, Lucid, nn.ReLU(), 3]
)
def test_other_functions_are_no_factories(function):
    assert not is_factory(function)


def test_a_factory_that_raises_is_told_with_its_line():
    line = inspect.getsourcelines(make_layer)[1] + 1
    with pytest.raises(
        CannotConstructError, match=rf"make_layer\(\) raised.[^|]*KeyError: 'weights.pt', at line {line}"
    ):
        made(make_layer)


def test_a_factory_that_returns_no_module_is_told():
    with pytest.raises(CannotConstructError, match=r"get_mask\(\) built no module.[^|]*got: +Tensor"):
        made(get_mask)
    with pytest.raises(CannotConstructError, match=r"got: +the class Lucid[^|]*return Lucid\(\.\.\.\)"):
        made(make_block)


# ---------------------------------------------------------------- names


NAMES = {
    "d_model": "d_model dim embed_dim emb_size n_embd hidden_size channels in_channels d_in d_out input_size "
    "query_dim num_hiddens nx n_state all_head_size latent_dim inner_dim feats embedDim h_dim",
    "heads": "num_heads n_head heads nhead h num_attention_heads decoder_attention_heads numHeads n_q_heads",
    "kv_heads": "num_kv_heads n_kv_head num_key_value_heads kv_heads num_kv_groups n_local_kv_heads heads_kv",
    "d_head": "d_head dim_head head_dim head_size d_k d_v dk dim_per_head attention_head_size d_kv key_dim",
    "memory": "d_memory context_dim cross_attention_dim kdim vdim kv_dim cond_dim dim_context media_dim",
    "length": "max_len block_size context_length n_ctx max_position_embeddings seq_len max_seq_len maxlen",
    "dropout": "dropout attn_drop attn_pdrop attention_probs_dropout_prob p drop_rate",
    "window": "window_size sliding_window attention_window local_window_size",
    "layers": "num_layers depth n_layer num_hidden_layers",
    "layer_index": "layer_idx layer_id block_idx layer_number",
    "bias": "bias qkv_bias use_bias attention_bias",
    "flag": "causal is_causal use_flash add_bias_kv need_weights is_decoder",
    "skipped_layers": "drop_path drop_path_rate layerdrop",
    "intermediate": "intermediate_size d_ff ffn_dim dim_feedforward",
    "vocab": "vocab_size n_vocab src_vocab_size",
    None: "sigma gamma mode flavour type",
}


@pytest.mark.parametrize(
    ("name", "meaning"), [(name, meaning) for meaning, names in NAMES.items() for name in names.split()]
)
def test_a_name_has_one_meaning(name, meaning):
    assert meaning_of(name) == meaning


def test_the_width_of_an_encoder_is_a_memory_only_beside_another_width():
    assert meaning_of("encoder_dim") == "d_model"
    assert meaning_of("encoder_dim", Surroundings(["encoder_dim", "d_model"])) == "memory"


def test_a_class_of_a_file_without_source_is_built_too():
    module = ModuleType("without_source")
    exec("class Plain:\n    def __init__(self, dim, heads=8): self.got = (dim, heads)", vars(module))
    assert construct(module.Plain, {}).instance.got == (48, 6)


def test_a_class_written_in_c_without_a_signature_is_called_with_nothing():
    assert construct(type("Letters", (str,), {}), {}).instance == ""
