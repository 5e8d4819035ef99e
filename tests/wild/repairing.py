"""What the two proofs of the wild files share: one marked line, repaired."""

from pathlib import Path

HERE = Path(__file__).parent
MARK = "  # bug"


def source_of(entry):
    """Return the text of a file that an expectation is about."""
    return (HERE / entry["file"]).read_text(encoding="utf-8")


def repaired(entry, line):
    """Return the text with ``line`` in the place of the one that is marked, indented as that was."""
    lines = source_of(entry).splitlines()
    [at] = [i for i, text in enumerate(lines) if text.endswith(MARK)]
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at] = indent + line
    return "\n".join(lines)


def answers_rightly(target, check):
    """Say whether a check holds; a target that raises answers wrongly."""
    try:
        return bool(check(target))
    except (RuntimeError, IndexError, TypeError):
        return False
