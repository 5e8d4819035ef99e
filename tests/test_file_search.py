"""Which files of a folder are worth a check: judged by their text, never by running them."""

from pathlib import Path

import pytest

from softlookup.file_search import Exclusion, looks_like_attention, search, search_file

HERE = Path(__file__).parent
ATTEND = "def attend(q, k, v):\n    return q\n"
CORPUS = [
    path
    for corpus in ("wild/b[0-9]*.py", "right/r[0-9]*.py", "kill/styles/*.py")
    for path in sorted(HERE.glob(corpus))
]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return a function that writes files into the current folder, which is empty at first."""
    monkeypatch.chdir(tmp_path)

    def write(*names, text=ATTEND):
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")

    return write


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_all_attention_we_know_looks_like_attention(path):
    assert looks_like_attention(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "def attn(x): ...",
        "class Block:\n    def forward(self, query_states, key_states): ...",
        "class Mixer:\n    def forward(self, x):\n        return (self.to_q(x) @ self.to_k(x)).softmax(-1)",
        "class Tower:\n    def __init__(self):\n        self.layers = nn.TransformerEncoderLayer(8, 2)",
        "def f(x):\n    query, keys = g(x)\n    return F.scaled_dot_product_attention(query, keys, keys)",
        "try:\n    import torch\nexcept ImportError:\n    pass\nelse:\n    def attention(x): ...",
        "if FAST:\n    pass\nelse:\n    def attention(x): ...",
    ],
    ids=[
        "its name",
        "its parameters",
        "its projections",
        "its layers",
        "its locals",
        "under try",
        "under else",
    ],
)
def test_attention_is_recognised_by(text):
    assert looks_like_attention(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# attention: run this twice",
        "def classify(logits):\n    return logits.softmax(-1)",
        "def drawing(q_len, k_len):  # of attention\n    return q_len - k_len",
        "def query(database, keys): ...\n",
        "from model import attend\n\n\ndef main():\n    print('attention')",
        "def lookup(key, attention_span): ...",
    ],
    ids=["nothing", "a comment", "a classifier", "lengths", "a database", "a caller", "one word"],
)
def test_other_code_does_not_look_like_attention(text):
    assert not looks_like_attention(text)


def test_a_file_that_does_not_parse_is_judged_by_its_words():
    assert looks_like_attention("def attention(q, k, v:\n")
    assert not looks_like_attention("def softmax(x:\n")


def test_files_come_in_order_from_all_folders_below(tree):
    tree("b.py", "a/z.py", "a/b/c.py")
    tree("sums.py", text="def add(a, b): ...")
    tree("notes.txt")
    found = search(".")
    assert found.files == ("a/b/c.py", "a/z.py", "b.py")
    assert found.without == 1
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("name", "left_out", "reason"),
    [
        (".git/a.py", ".git", "hidden"),
        (".a.py", ".a.py", "hidden"),
        ("site-packages/a.py", "site-packages", "installed packages"),
        ("node_modules/a.py", "node_modules", "installed packages"),
        ("src/tests/a.py", "src/tests", "tests"),
        ("test/a.py", "test", "tests"),
        ("test_a.py", "test_a.py", "tests"),
        ("a_test.py", "a_test.py", "tests"),
        ("conftest.py", "conftest.py", "tests"),
        ("old/models/a.py", "old/models", "excluded in pyproject.toml"),
        ("src/a_generated.py", "src/a_generated.py", "excluded in pyproject.toml"),
    ],
)
def test_what_is_left_out_has_a_reason(tree, name, left_out, reason):
    tree(name)
    exclusion = Exclusion(("old/models", "*_generated.py"))
    assert search(".", exclusion).left_out == ((left_out, reason),)
    assert search_file(name, exclusion).left_out == ((name, reason),)
    assert search(".", exclusion).files == search_file(name, exclusion).files == ()


def test_a_virtual_environment_is_left_out_whatever_it_is_called(tree):
    tree("mine/pyvenv.cfg", text="home = /usr\n")
    tree("mine/lib/a.py")
    assert search(".").left_out == (("mine", "installed packages"),)


def test_a_folder_that_is_named_is_searched_whatever_it_is_called(tree):
    tree("tests/a.py")
    assert search("tests").files == ("tests/a.py",)


def test_links_to_folders_are_not_followed(tree, tmp_path):
    tree("a/b.py")
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a", target_is_directory=True)
    assert search(".").files == ("a/b.py",)


def test_patterns_are_seen_from_the_folder_of_the_configuration(tree, tmp_path):
    tree("sub/old/a.py", "sub/new/a.py")
    assert search("sub", Exclusion(("sub/old",), str(tmp_path))).files == ("sub/new/a.py",)
    assert len(search("sub", Exclusion(("sub/old",), str(tmp_path / "sub"))).files) == 2


def test_one_file_is_judged_as_a_search_of_its_folder_would(tree):
    tree("src/model.py")
    tree("src/sums.py", text="def add(a, b): ...")
    assert search_file("src/model.py").files == ("src/model.py",)
    assert search_file("src/sums.py").without == 1


def test_a_file_outside_the_current_folder_is_not_judged_by_the_way_there(tree, monkeypatch):
    tree("here/a.py", "model.py")
    monkeypatch.chdir("here")
    assert search_file("../model.py").files == ("../model.py",)


def test_a_file_in_another_encoding_is_read(tree, tmp_path):
    (tmp_path / "latin.py").write_bytes(b"# gr\xf6\xdfe\n" + ATTEND.encode())
    assert search(".").files == ("latin.py",)
