"""Writes src/data/unicode_ranges.h: which code points GPT-2's pattern takes for letters, numbers and white space.

    .deps/venv/bin/python scripts/unicode_classes.py

It asks Hugging Face `tokenizers` (the version of requirements-peers.txt), not Python's unicodedata: ids must be the same,
so what counts is the Unicode version that `tokenizers` was built with (16.0 in 0.23.3: U+1C89 is a letter there, and
U+323B0, which came with 17.0, is none). Every code point is asked for, in a minute or two; surrogates are no characters.
"""
import pathlib

import tokenizers

HEADER = pathlib.Path(__file__).resolve().parent.parent / "src/data/unicode_ranges.h"
LETTER, NUMBER, SPACE = 1, 2, 3
PER_CALL = 4096  # code points; the time of a call grows faster than its text


def classes() -> bytearray:
    """The class of each code point, 0 for all others. Each is shown as "a?1!?": where the pieces end tells its class."""
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    found = bytearray(0x110000)
    characters = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for first in range(0, len(characters), PER_CALL):
        block = characters[first:first + PER_CALL]
        ends = {end for _, (_, end) in split("".join(f"a{chr(code)}1!{chr(code)}" for code in block))}
        for place, code in enumerate(block):
            if 5 * place + 1 not in ends:  # no end between the a and it
                found[code] = LETTER
            elif 5 * place + 2 not in ends:  # none between it and the 1
                found[code] = NUMBER
            elif 5 * place + 4 in ends:  # one between the ! and it
                found[code] = SPACE
    found[0x20] = SPACE  # it alone joins what follows, so it looks like a number above
    return found


def ranges(found: bytearray, wanted: int) -> list[tuple[int, int]]:
    rows = []
    for code, kind in enumerate(found):
        if kind == wanted:
            if rows and rows[-1][1] == code - 1:
                rows[-1] = (rows[-1][0], code)
            else:
                rows.append((code, code))
    return rows


def array(name: str, rows: list[tuple[int, int]]) -> str:
    cells = [f"{{0x{first:04x}, 0x{last:04x}}}" for first, last in rows]
    lines = [", ".join(cells[i:i + 4]) for i in range(0, len(cells), 4)]
    return f"inline constexpr CodeRange {name}[] = {{\n    " + ",\n    ".join(lines) + "};\n"


def main() -> None:
    found = classes()
    HEADER.write_text(
        "// Letters, numbers and white space as tokenizers " + tokenizers.__version__ + " sees them (Unicode 16.0).\n"
        "// Written by scripts/unicode_classes.py; do not edit.\n"
        "#pragma once\n\n"
        "namespace tutti::data {\n\n"
        "// clang-format off\n"
        "struct CodeRange {\n  char32_t first;\n  char32_t last;  // included\n};\n\n"
        + array("kLetters", ranges(found, LETTER)) + "\n" + array("kNumbers", ranges(found, NUMBER)) + "\n"
        + array("kSpaces", ranges(found, SPACE)) +
        "// clang-format on\n\n}  // namespace tutti::data\n")


if __name__ == "__main__":
    main()
