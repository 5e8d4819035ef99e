"""softlookup mask: drawings, reasons, calls of other libraries, pictures, files, and what it refuses."""

import io
import itertools
import json
import pickle
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
import zlib

import numpy
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from softlookup import SoftlookupError
from softlookup.cli import main
from softlookup.conventions import convention_names, find_convention
from softlookup.conventions.spelling import Sizes
from softlookup.mask_cells import MOST_CELLS, MOST_PANELS, mask_picture
from softlookup.mask_files import read_tensors
from softlookup.masks import Mask, causal, padding, sliding_window
from softlookup.report.mask_panels import MaskPanel, MaskPicture, ticks
from softlookup.report.mask_png import png_of
from softlookup.report.mask_svg import svg_of

LOWER = torch.ones(5, 5).tril().bool()


def run(*arguments):
    """Return what the command prints when it does what it is asked."""
    done = CliRunner().invoke(main, ["mask", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments):
    """Return the words in which the command refuses, with status 2."""
    done = CliRunner().invoke(main, ["mask", *map(str, arguments)])
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit), done.exception
    return done.output


def facts(*arguments):
    return json.loads(run(*arguments, "--format", "json"))


# Words, drawings, reasons


def test_the_example_of_its_page_draws_the_mask_and_the_call():
    out = run("causal & padding(5, 3)", "--q-len", 5, "--k-len", 5, "--draw", "--to", "nn.MultiheadAttention")
    assert out.startswith("causal() & padding([5, 3])   T_q = 5, T_k = 5, B = 2\n")
    sample_1 = out[out.index("sample 1") :].splitlines()
    assert sample_1[1:6] == [
        "query   key 0 1 2 3 4",
        "    0       1 . . . .",
        "    1       1 1 . . .",
        "    2       1 1 1 . .",
        "    3       1 1 1 . .",
    ]
    assert "module(q, k, v, attn_mask=attn_mask, key_padding_mask=key_padding_mask)" in out
    assert "key_padding_mask: bool [2, 5], 1 = hidden\n  . . . . .\n  . . . 1 1\n" in out


def test_a_mask_is_drawn_when_nothing_else_is_asked():
    assert run("causal", "--q-len", 3, "--k-len", 3) == run("causal", "--q-len", 3, "--k-len", 3, "--draw")
    assert "query   key" not in run("causal", "--explain", "1,2")


def test_lengths_that_the_mask_fixes_need_not_be_given():
    assert "T_k = 3" in run("documents([[0, 0, 1]])", "--q-len", 3)


def test_lengths_that_nobody_said_are_asked_for_by_their_options():
    words = refused("causal")
    assert "expected: --q-len N --k-len N" in words
    assert "--q-len N" in refused("causal", "--k-len", 3, "--to", "sdpa[bool]")


def test_lengths_that_contradict_the_mask_are_refused():
    assert "does not fit" in refused("padding(5)", "--k-len", 3) or "more keys than there are"
    assert "T_k = 3 in the mask" in refused("documents([[0, 0, 1]])", "--q-len", 3, "--k-len", 4)


def test_a_mask_that_is_the_same_for_all_queries_is_drawn_with_one():
    out = run("padding(2, 0)", "--k-len", 3)
    assert "every query sees the same keys: one is drawn" in out
    assert "empty rows: every query of sample 1" in out


def test_a_reason_names_the_rules_that_hide_the_key_in_every_sample():
    out = run("causal & padding(5, 3)", "--explain", "3,4")
    assert "key 4 is hidden from query 3 of sample 0: causal\n" in out
    assert "key 4 is hidden from query 3 of sample 1: causal and padding([5, 3])\n" in out
    assert "sample 0" not in run("causal & padding(5, 3)", "--explain", "3,4,1").splitlines()[2]


def test_more_samples_than_can_be_read_are_counted():
    out = run(f"padding({', '.join(map(str, range(1, 21)))})", "--explain", "0,9")
    assert "... and 12 more" in out


@pytest.mark.parametrize("text", ["3", "3;5", "a,b", "1,2,3,4,5", "-1,2", "1,²"])
def test_a_place_that_cannot_be_read_is_refused(text):
    assert "--explain could not be read" in refused("causal", "--explain", text)


def test_a_place_outside_is_refused():
    assert "there is no query 5" in refused("causal", "--q-len", 3, "--k-len", 9, "--explain", "5,1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("causal & padding(5, 3)", "none, every query sees a key"),
        ("padding(5, 0)", "queries 0 to 4 of sample 1. No key is seen there"),
        ("~causal", "empty rows: query 4. No key"),
    ],
)
def test_empty_rows_are_always_stated(text, words):
    for asked in (["--draw"], ["--explain", "1,0"], ["--to", "sdpa"]):
        assert words in run(text, "--q-len", 5, "--k-len", 5, *asked)


def test_empty_rows_that_depend_on_lengths_nobody_said_are_not_guessed():
    assert "not looked for" in run("causal", "--explain", "1,0")
    assert facts("causal", "--explain", "1,0")["empty_rows"] is None


def test_a_mask_in_words_that_cannot_be_read_is_shown_at_its_place():
    assert "causl\n  ^^^^^" in refused("causl")
    assert "__import__" in refused("__import__('os').system('true')")


def test_a_bias_hides_nothing_and_is_said():
    out = run("alibi(2) & causal", "--q-len", 3, "--k-len", 3)
    assert "the bias alibi(2): it changes weights and hides nothing" in out
    assert "H = 2" in out


# Large masks


@pytest.mark.parametrize("length", [48, 49, 97, 1000, 4097])
def test_a_drawing_never_has_more_than_48_cells(length):
    picture = mask_picture(causal(), length, 2 * length)
    assert len(picture.panels[0].rows) <= MOST_CELLS
    assert len(picture.panels[0].rows[0]) <= MOST_CELLS


@pytest.mark.parametrize(("q_len", "k_len"), [(5, 7), (50, 50), (100, 60), (97, 150)])
def test_a_cell_says_what_the_pairs_in_it_say(q_len, k_len):
    torch.manual_seed(0)
    keep = torch.rand(2, 3, q_len, k_len) < 0.7
    keep[0, 0, : q_len // 2] = True
    keep[0, 1, q_len // 3] = False
    picture = mask_picture(Mask.from_tensor(keep), q_len, k_len)
    queries, keys = picture.block
    for panel, dense in zip(picture.panels, keep.flatten(0, 1), strict=True):
        for i, row in enumerate(panel.rows):
            strip = dense[i * queries : (i + 1) * queries]
            assert (i in panel.blind) == bool((~strip.any(dim=-1)).any())
            for j, mark in enumerate(row):
                cell = strip[:, j * keys : (j + 1) * keys]
                assert mark == ("1" if cell.all() else "+" if cell.any() else ".")
        assert len(panel.rows) == -(-q_len // queries)
        assert len(panel.rows[0]) == -(-k_len // keys)


def test_a_large_mask_says_what_a_cell_is():
    out = run("causal & sliding_window(700)", "--q-len", 4096, "--k-len", 4096)
    assert "a cell is 128 queries x 128 keys, 1 all visible, + some, . none" in out
    assert max(map(len, out.splitlines())) < 125


def test_samples_that_are_not_drawn_are_counted():
    out = run(f"padding({', '.join(['2'] * 9)})", "--k-len", 3)
    assert f"{MOST_PANELS} of 9 samples and heads are drawn" in out


def test_too_many_pairs_are_refused():
    words = refused("~causal", "--q-len", 10**6, "--k-len", 10**6)
    assert "at most 17,179,869,184 pairs" in words
    assert "17,179,869,184" in refused("~causal", "--q-len", 10**6, "--k-len", 10**6, "--explain", "1,2")


def test_large_arguments_are_named_and_not_drawn():
    out = run("causal", "--q-len", 500, "--k-len", 500, "--to", "mha")
    assert "attn_mask: bool [500, 500], 1 = hidden (too large to draw)" in out
    found = facts("causal", "--q-len", 500, "--k-len", 500, "--to", "mha")
    assert found["to"][0]["arguments"]["attn_mask"]["values"] is None


# Calls of other libraries


@pytest.mark.parametrize("name", convention_names())
def test_every_convention_that_is_listed_writes_a_mask(name):
    if name == "xformers":
        pytest.importorskip("xformers", reason="its classes are its masks")
    sizes = ["--q-len", 4, "--k-len", 4, "--batch-size", 2, "--heads", 2]
    out = run("causal", *sizes, "--to", name, "--lossy")
    assert f"\n{name}: {find_convention(name)[0].call.partition('{')[0]}" in out


def test_several_libraries_are_written_one_after_the_other():
    out = run("causal", "--q-len", 3, "--k-len", 3, "--to", "sdpa", "--to", "mha[2-D]")
    assert "F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)\n  is_causal=True" in out
    assert "nn.MultiheadAttention[2-D]: module(q, k, v, attn_mask=attn_mask)" in out


def test_what_would_be_lost_is_refused_in_words_and_left_out_when_asked():
    asked = ["causal & padding(3, 2)", "--q-len", 3, "--k-len", 3, "--to", "sdpa[is_causal]"]
    words = refused(*asked)
    assert "lost: everything but the causal rule" in words
    assert "--lossy" in words
    assert "lossy=True" not in words
    assert "lost: everything but the causal rule" in run(*asked, "--lossy")


def test_an_unknown_library_is_refused_with_the_nearest():
    assert "did you mean sdpa" in refused("causal", "--q-len", 3, "--k-len", 3, "--to", "sdpaa")


def test_the_json_of_a_call_has_numbers_that_json_knows():
    found = facts("causal", "--q-len", 2, "--k-len", 2, "--to", "sdpa[additive]")["to"][0]
    assert found["call"] == "F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)"
    assert found["arguments"]["attn_mask"] == {
        "dtype": "float32",
        "shape": [1, 1, 2, 2],
        "values": [[[[0.0, "-inf"], [0.0, 0.0]]]],
    }


def test_the_json_has_the_drawing_the_reasons_and_the_empty_rows():
    found = facts("~causal", "--q-len", 2, "--k-len", 2, "--draw", "--explain", "0,1")
    assert found["drawing"]["panels"] == [{"title": "", "rows": [".1", ".."], "blind": [1]}]
    assert found["explained"] == ["key 1 is visible to query 0"]
    assert (found["empty_rows"], found["empty_rows_in_all"]) == ([[0, 0, 1]], 1)


def test_the_list_names_every_convention_with_its_forms():
    lines = run("--list").splitlines()
    assert [line.split("  ")[0] for line in lines] == convention_names()
    assert [it["name"] for it in json.loads(run("--list", "--format", "json"))] == convention_names()


def test_nothing_to_look_at_is_refused():
    assert "a mask in words, or a file" in refused()


# Files


def saved(folder, suffix, tensors):
    """Write tensors as a file of one kind; a single one without a name where that kind has none."""
    file = folder / f"mask{suffix}"
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    if suffix == ".npy":
        numpy.save(file, next(iter(arrays.values())))
    elif suffix == ".npz":
        numpy.savez(file, **arrays)
    elif suffix == ".safetensors":
        save_file(tensors, file)
    else:
        torch.save(tensors, file)
    return file


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".pt"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float32, torch.float16])
def test_each_kind_of_file_gives_back_the_tensor(tmp_path, suffix, dtype):
    tensor = LOWER.to(dtype)
    found = read_tensors(str(saved(tmp_path, suffix, {"it": tensor})))
    assert list(found) == ([""] if suffix == ".npy" else ["it"])
    (read,) = found.values()
    assert read.dtype == dtype
    assert torch.equal(read, tensor)


def test_other_byte_orders_bare_tensors_and_lists_are_read(tmp_path):
    numpy.save(tmp_path / "big.npy", numpy.arange(6, dtype=">i4").reshape(2, 3))
    assert read_tensors(str(tmp_path / "big.npy"))[""].tolist() == [[0, 1, 2], [3, 4, 5]]
    torch.save(LOWER, tmp_path / "bare.pt")
    assert torch.equal(read_tensors(str(tmp_path / "bare.pt"))[""], LOWER)
    torch.save([LOWER, ~LOWER], tmp_path / "list.pt")
    assert list(read_tensors(str(tmp_path / "list.pt"))) == ["0", "1"]
    torch.save(LOWER, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert torch.equal(read_tensors(str(tmp_path / "old.pt"))[""], LOWER)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".pt"])
def test_a_file_is_read_as_allowed_or_as_whose_mask_it_is(tmp_path, suffix):
    file = saved(tmp_path, suffix, {"it": ~LOWER})
    assert facts(file, "--draw")["drawing"]["panels"][0]["rows"][0] == ".1111"
    blocked = facts(file, "--from", "blocked_mask", "--draw")["drawing"]["panels"][0]["rows"]
    assert blocked == ["1....", "11...", "111..", "1111.", "11111"]
    written = facts(file, "--from", "mha", "--to", "sdpa[bool]")["to"][0]["arguments"]["attn_mask"]
    assert torch.equal(torch.tensor(written["values"])[0, 0], LOWER)


def test_a_file_with_the_arguments_of_one_call_is_read_as_that_call(tmp_path):
    keys = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    file = saved(tmp_path, ".npz", {"attn_mask": ~LOWER, "key_padding_mask": keys})
    panels = facts(file, "--from", "nn.MultiheadAttention", "--draw")["drawing"]["panels"]
    assert [panel["rows"][4] for panel in panels] == ["11111", "111.."]


def test_one_of_several_tensors_is_chosen_by_its_name(tmp_path):
    file = saved(tmp_path, ".safetensors", {"a": LOWER, "b": ~LOWER})
    assert "--name a or b" in refused(file, "--draw")
    assert facts(file, "--name", "a", "--draw")["empty_rows"] == []
    words = refused(file, "--name", "c", "--draw")
    assert "holds no tensor 'c'" in words
    assert "a, b" in words


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".pt"])
def test_a_file_is_identified(tmp_path, suffix):
    file = saved(tmp_path, suffix, {"it": ~LOWER})
    sizes = ["--q-len", 5, "--k-len", 5, "--batch-size", 2]
    out = run(file, "--identify", *sizes)
    assert out.startswith(str(file))
    assert "True = hidden, [T_q, T_k]" in out
    (found,) = facts(file, "--identify", *sizes)["tensors"]
    assert (found["dtype"], found["shape"]) == ("bool", [5, 5])
    assert found["identified"]["answer"] == "True = hidden, [T_q, T_k]"


def test_each_tensor_of_a_file_is_identified_and_what_is_no_mask_says_so(tmp_path):
    file = saved(tmp_path, ".npz", {"a": LOWER, "b": torch.zeros(1, 1, 1, 1, 1)})
    first, second = facts(file, "--identify")["tensors"]
    assert first["identified"]["structure"] == "causal()"
    assert "one to four axes" in second["refused"]
    assert "one to four axes" in refused(file, "--identify", "--name", "b")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".pt"])
@pytest.mark.parametrize("kept", [0, 1, 20, 100, -20])
def test_a_file_that_is_cut_off_is_refused(tmp_path, suffix, kept):
    file = saved(tmp_path, suffix, {"it": torch.ones(40, 40)})
    file.write_bytes(file.read_bytes()[:kept])
    assert "cannot be read" in refused(file, "--identify")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".pt"])
def test_files_that_are_missing_or_something_else_are_refused(tmp_path, suffix):
    assert "no such file" in refused(tmp_path / f"none{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    assert "no such file" in refused(tmp_path / f"folder{suffix}", "--identify")
    (tmp_path / f"text{suffix}").write_text("causal & padding(5, 3)" * 20)
    assert "cannot be read" in refused(tmp_path / f"text{suffix}", "--identify")


def test_a_file_of_an_unknown_kind_is_refused(tmp_path):
    (tmp_path / "mask.bin").write_bytes(b"1")
    words = refused(tmp_path / "mask.bin")
    assert "ends in .npy, .npz, .safetensors, .pt" in words
    assert "a file that ends in .bin" in words


def test_words_with_an_option_for_files_are_told():
    assert "a mask in words takes no --identify" in refused("causal", "--identify")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"mask": LOWER, "epoch": 3}, "int in it"),
        ("causal", "str in it"),
        ({"nested": {"mask": LOWER}}, "dict in it"),
        (LOWER.float().to_sparse(), "torch.sparse_coo".removeprefix("torch.")),
        (LOWER.to(torch.complex64), "complex64"),
        (torch.zeros(0, 4), "with entries"),
        (torch.ones(1, 1).expand(2**18, 2**18), "at most 17,179,869,184 entries"),
        (torch.empty(3, 3, device="meta"), "without its numbers"),
        ({}, "is empty"),
    ],
    ids=["number", "text", "nested", "sparse", "complex", "empty", "expanded", "meta", "nothing"],
)
def test_what_is_no_plain_tensor_is_refused(tmp_path, content, words):
    torch.save(content, tmp_path / "mask.pt")
    assert words in refused(tmp_path / "mask.pt", "--identify")


@pytest.mark.parametrize("dtype", ["U3", "complex64", "datetime64[s]", "V4"])
def test_arrays_that_hold_no_numbers_are_refused(tmp_path, dtype):
    numpy.save(tmp_path / "mask.npy", numpy.zeros((2, 2), dtype=dtype))
    assert "mask.npy" in refused(tmp_path / "mask.npy", "--identify")


def test_an_archive_that_claims_to_be_huge_is_not_unpacked(tmp_path):
    file = tmp_path / "mask.npz"
    header = io.BytesIO()
    claimed = {"descr": "|b1", "fortran_order": False, "shape": (2**35,)}
    numpy.lib.format.write_array_header_1_0(header, claimed)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("it.npy", header.getvalue())
    data = bytearray(file.read_bytes())
    at = data.rindex(b"PK\x01\x02")  # the size that the directory of the archive claims
    data[at + 24 : at + 28] = struct.pack("<I", 2**32 - 2)
    file.write_bytes(bytes(data))
    assert "cannot be read" in refused(file, "--identify")


class _Runs:
    """What a pickle can do when it is read."""

    def __init__(self, witness):
        self.witness = witness

    def __reduce__(self):
        return exec, (f"open({str(self.witness)!r}, 'w').write('run')",)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")  # torch's word about it, before it refuses
def test_a_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path):
    witness = tmp_path / "witness"
    evil = _Runs(witness)
    pickle.loads(pickle.dumps(evil))
    assert witness.read_text() == "run"  # the attack works where it is let
    witness.unlink()
    torch.save(evil, tmp_path / "zip.pt")
    torch.save({"mask": LOWER, "x": evil}, tmp_path / "inside.pt")
    torch.save(evil, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(evil))
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(evil))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(evil))
    (tmp_path / "raw.safetensors").write_bytes(pickle.dumps(evil))
    numpy.save(tmp_path / "object.npy", numpy.array([evil], dtype=object), allow_pickle=True)
    numpy.savez(tmp_path / "object.npz", it=numpy.array([evil], dtype=object))
    files = [it for it in tmp_path.iterdir() if it.suffix]
    assert len(files) == 9
    for file in files:
        for asked in (["--identify"], ["--draw"], ["--from", "mha", "--to", "sdpa"], ["--name", "it"]):
            assert "cannot be read" in refused(file, *asked), file
    assert not witness.exists()


def test_names_in_files_steer_no_terminal(tmp_path):
    file = saved(tmp_path, ".npz", {"a\x1b[31m": LOWER, "b": LOWER})
    assert "\x1b" not in run(file, "--identify")


# Pictures


def test_the_svg_says_its_axes_its_legend_and_each_sample(tmp_path):
    run("causal & padding(3, 0)", "--q-len", 3, "--k-len", 3, "--svg", tmp_path / "it.svg")
    root = ET.fromstring((tmp_path / "it.svg").read_text(encoding="utf-8"))
    texts = [it.text for it in root.iter("{http://www.w3.org/2000/svg}text")]
    for words in ("query", "key", "sample 0", "sample 1", "may look", "hidden", "a query that sees no key"):
        assert words in texts
    assert root.get("aria-label").startswith("causal() & padding([3, 0]): rows are queries")


def cells_of(text, name):
    """Return how many cells the boxes of one class cover, without the legend."""
    boxes = re.findall(rf'<rect class="{name}" x="\d+" y="\d+" width="(\d+)" height="(\d+)"', text)
    return sum(int(width) // int(height) for width, height in boxes[:-1])


def test_the_svg_has_a_cell_for_each_pair():
    keep = torch.tensor([[True, False, True, True], [False, False, True, False]])
    text = svg_of(mask_picture(Mask.from_tensor(keep), 2, 4))
    assert cells_of(text, "full") == int(keep.sum())
    assert cells_of(text, "none") == int((~keep).sum())


def test_the_svg_of_a_large_mask_says_what_a_cell_is():
    text = svg_of(mask_picture(causal() & sliding_window(99), 1000, 1000, "a window"))
    assert "a cell is 32 queries x 32 keys" in text
    assert "some may look" in text


def test_words_of_the_mask_are_no_markup(tmp_path):
    picture = MaskPicture('<script>"&', (MaskPanel("<b>", ("1",), frozenset()),), 1, 1)
    root = ET.fromstring(svg_of(picture))
    assert root.get("aria-label").startswith('<script>"&')
    assert "<script>" not in svg_of(picture)


def pixels(data):
    """Read a PNG as it is specified: chunks with checksums, then lines of palette numbers."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + body)
        chunks[name], at = body, at + 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind) == (8, 3)
    raw = zlib.decompress(chunks[b"IDAT"])
    assert len(raw) == height * (width + 1)
    lines = [raw[n * (width + 1) : (n + 1) * (width + 1)] for n in range(height)]
    assert all(line[0] == 0 for line in lines)
    return [line[1:] for line in lines], chunks


def test_the_png_has_the_cells_in_their_places_and_words_in_its_description():
    keep = torch.tensor([[True, False, True], [False, False, False]])
    lines, chunks = pixels(png_of(mask_picture(Mask.from_tensor(keep), 2, 3, "my mask")))
    found = [[lines[12 + 24 * i + 5][12 + 24 * j + 5] for j in range(3)] for i in range(2)]
    assert found == [[1, 3, 1], [3, 3, 3]]
    assert lines[12 + 5][12 + 72] == 0
    assert lines[12 + 24 + 5][12 + 72] == 4  # the row that sees nothing
    assert chunks[b"tEXt"].startswith(b"Description\0my mask; rows are queries")


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    for option in ("--svg", "--png"):
        words = refused("causal", "--q-len", 2, "--k-len", 2, option, tmp_path / "none" / "it")
        assert "could not be written" in words


def test_a_picture_needs_lengths(tmp_path):
    assert "a drawing needs the lengths of causal()" in refused("causal", "--png", tmp_path / "it.png")
    assert not (tmp_path / "it.png").exists()


@pytest.mark.parametrize("cells", [1, 5, 11, 33, 48])
@pytest.mark.parametrize("block", [1, 4, 128])
def test_labels_of_an_axis_do_not_touch(cells, block):
    found = ticks(cells, block, apart=2)
    assert found[0] == (0, "0")
    for (at, label), (following, _) in itertools.pairwise(found):
        assert following - at >= 2
        assert label == str(at * block)


def test_the_help_of_all_commands_and_its_own_import_no_torch():
    for arguments in (["--help"], ["mask", "--help"]):
        code = (
            "import sys\nfrom softlookup.cli import main\n"
            f"try: main({arguments!r})\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False"
        assert "mask" in done.stdout


def test_readers_and_pictures_refuse_in_words_of_their_own(tmp_path):
    with pytest.raises(SoftlookupError, match="no such file"):
        read_tensors(str(tmp_path / "none.npy"))
    with pytest.raises(SoftlookupError, match="more keys than there are"):
        mask_picture(padding(5), 2, 3)
    assert Sizes().q_len is None
