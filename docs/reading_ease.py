"""Measure sentence and page lengths of the prose: `python docs/reading_ease.py [root]`.

It reads README.md, CHANGELOG.md and docs/**/*.md without decision records, code, tables, headings and directives.
Goals: a median of at most 18 words, no sentence above 40, no page above 1,500 (except reference/ and paper.md).
"""

import re
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

LONGEST_SENTENCE, LONGEST_PAGE = 40, 1500
MAY_BE_LONG = ("docs/reference/", "docs/paper.md")
SKIPPED = ("docs/decisions/", "docs/_build/", "docs/jupyter_execute/", "docs/reference/generated/")
WITH_PROSE = "note|tip|warning|important|caution|hint|seealso|admonition|dropdown"
REPLACED = [
    (r"\A---\n.*?\n---\n", re.DOTALL, ""),  # front matter
    (rf"^ *(`{{3,}})(?!\{{(?:{WITH_PROSE})\}}).*?^ *\1`*[ \t]*$", re.DOTALL, "\n"),  # code and directives
    (r"^ *(?:`{3,}|:{3,}).*$", 0, "\n"),  # fences of containers and admonitions
    (r"^\$\$.*?\$\$|<!--.*?-->", re.DOTALL, "\n"),
    (r"^(?: *\||#+ | {4,}[^ \-*]| *:[\w-]+:|\([\w-]+\)=).*$", 0, "\n"),  # tables, headings, code, options, anchors
    (r"\{\{.*?\}\}|!\[[^\]]*\]\([^)]*\)", 0, ""),
    (r"\[([^\]]*)\]\([^)]*\)", 0, r"\1"),  # links keep their text
    (r"^> ?", 0, ""),
    (r"(?:\{[\w:-]+\})?`[^`\n]+`|\$[^$\n]+\$", 0, "Code"),  # inline code and formulas are one word
    (r"\b(e\.g|i\.e|et al|vs|cf|[A-Z])\.", 0, r"\1"),  # abbreviations and initials do not end a sentence
]
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*:]|\d+\.) )")
SENTENCE_END = re.compile(r"[.!?][)*_\"”]*\s+(?=[\[(*_\"“]*[A-Z0-9])")


def sentences(text):
    """Return the sentences of a Markdown page."""
    for pattern, flags, replacement in REPLACED:
        text = re.sub(pattern, replacement, text, flags=flags | re.MULTILINE)
    found = []
    for paragraph in PARAGRAPH.split(text):
        line = re.sub(r"^(?:[-*:]|\d+\.) ", "", " ".join(paragraph.split()))
        ends = [0, *(match.end() for match in SENTENCE_END.finditer(line)), len(line)]
        found += [line[start:stop].strip() for start, stop in pairwise(ends)]
    return [sentence for sentence in found if num_words(sentence)]


def num_words(sentence):
    """Count the words that have a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def pages_below(root):
    """Return the sentences of each page, by its path."""
    paths = [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: sentences(path.read_text()) for name, path in names.items() if not name.startswith(SKIPPED)}


def main(root):
    pages = pages_below(root)
    long_sentences, long_pages = [], []
    for name, found in pages.items():
        counts = [num_words(sentence) for sentence in found]
        if sum(counts) > LONGEST_PAGE and not name.startswith(MAY_BE_LONG):
            long_pages.append(name)
        long_sentences += [f"{name}: {sentence}" for sentence in found if num_words(sentence) > LONGEST_SENTENCE]
        print(f"{sum(counts):6,} words, median {median(counts or [0]):4.1f}, longest {max(counts or [0]):3}  {name}")
    counts = [num_words(sentence) for found in pages.values() for sentence in found]
    print(f"{len(counts):,} sentences, median {median(counts):.0f} words")
    print(f"{len(long_sentences)} sentences above {LONGEST_SENTENCE} words", *long_sentences, sep="\n  ")
    print(f"{len(long_pages)} pages above {LONGEST_PAGE:,} words", *long_pages, sep="\n  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
