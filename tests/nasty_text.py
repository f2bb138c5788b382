"""Texts on which a tokenizer for Unicode may stumble. The same text on every machine; used by tests and by bench/tokenizer.py."""
import random

SPACES = "".join(map(chr, [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]))
NEARLY_SPACES = "\u180e\u200b\u200c\u200d\u2060\ufeff\x1c\x1d\x1e\x1f\x00\x7f"
EMOJI = ["\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466", "\U0001F44D\U0001F3FD", "\U0001F1E9\U0001F1EA", "\u2764\ufe0f",
         "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F"]
WORDS = ["e\u0301galite\u0301", "Z\u0351\u036b\u0343alg\u031e\u0349o\u032c", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0633\u0644\u0627\u0645", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u4f60\u597d\u4e16\u754c", "\u3053\u3093\u306b\u3061\u306f", "\ud55c\uad6d\uc5b4", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u0391\u03b2\u03b3", "na\u00efve",
         "\U00010400\U00010428", "\U0001D400\U0001D7D8", "\U00020000\U0002A6DF", "\U00012000", "\u0661\u0662\u0663", "\u2167", "\u00bd\u00b2", "\U0001F101", "1st",
         "don't", "DON'T", "I'LL", "we'll", "you've", "'tis", "it's'll", "o\u2019clock", "''s", " 's", "x'", "'", "'re're", "'l", "'v", "'D", "<|endoftext|>"]
EDGES = "\u0000\u007f\u0080\u00ff\u0100\u07ff\u0800\ud7ff\ue000\ufffd\ufffe\uffff\U00010000\U0010ffff\u0378\uf8ff"
MARKS = ["!", "...", "?!", "--", "\u2014", "\u00a9\u00ae", "=>", "\u0301", "\u20e3", "$9.99", "3.14", "a1b2"]


def nasty(characters: int, seed: int = 1) -> str:
    """At least `characters` characters of everything above, of any other code points, and of runs of spaces and newlines."""
    draw = random.Random(seed)

    def some_space():
        return draw.choice([" ", " ", " ", "\n", draw.choice(SPACES) * draw.randint(1, 5), " " * draw.randint(2, 40),
                            "\n" * draw.randint(2, 9), "".join(draw.choices(SPACES, k=draw.randint(1, 6)))])

    def any_character():
        code = draw.choice([draw.randrange(0x80), draw.randrange(0x3000), draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])
        return chr(code)

    def anything():
        kind = draw.randrange(10)
        if kind < 4:
            return draw.choice(WORDS)
        if kind == 4:
            return draw.choice(EMOJI) * draw.randint(1, 3)
        if kind == 5:
            return draw.choice(MARKS)
        if kind == 6:
            return "".join(any_character() for _ in range(draw.randint(1, 8)))
        if kind == 7:
            return draw.choice(EDGES) + draw.choice(NEARLY_SPACES)
        if kind == 8:
            return draw.choice(WORDS).swapcase() * draw.randint(1, 4)
        longest = 90 if draw.random() < 0.05 else 9
        return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz'ETAOIN", k=draw.randint(1, longest)))

    parts, length = [], 0
    while length < characters:
        part = anything() + (some_space() if draw.random() < 0.7 else "")
        parts.append(part)
        length += len(part)
    return "".join(parts)
