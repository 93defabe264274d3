"""Data augmentation: variations of a corpus's pairs that look like what users type.

Corpora have clean sentences, one at a time. Users send capitals, typing errors, lists, several sentences, addresses,
placeholders, tags and emoji, and expect the last four back unchanged. Each kind of variation is a function from a pair
to another pair of the same meaning. The recipe sets the share of pairs that get one (`data.variations`).
"""

import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from .invented import invent


Pair = tuple[str, str]
Kind = Callable[[random.Random, Pair], Pair | None]

MAX_SENTENCES = 6  # in a joined text


def vary(pairs: Iterable[Pair], joined: float, shares: dict[str, float], max_length: int, seed: str) -> Iterator[Pair]:
    """Yield every pair, some followed by variations of it; the same seed yields the same.

    Args:
        joined: The share of pairs to follow with a text of several sentences: the last two to six pairs, joined.
        shares: The share of pairs to follow with a variation, for each of `KINDS`.
        max_length: Joined texts have about this many tokens at most.
    """
    rng, last = random.Random(seed), deque[Pair](maxlen=MAX_SENTENCES)
    for pair in pairs:
        yield pair
        last.append(pair)
        if rng.random() < joined and len(last) > 1:
            yield _join(list(last)[-rng.randint(2, len(last)) :], 3 * max_length)
        for name, share in shares.items():
            if rng.random() < share and (varied := KINDS[name](rng, pair)):
                yield varied


def _join(pairs: list[Pair], characters: int) -> Pair:
    """Join the last pairs into one: two, and as many more as fit into `characters` of the source."""
    while len(pairs) > 2 and sum(len(source) for source, _ in pairs) > characters:
        pairs = pairs[1:]
    return tuple(" ".join(side) for side in zip(*pairs, strict=True))


# Other spellings of the same text -------------------------------------------------------------------------------------


def capitals(rng: random.Random, pair: Pair) -> Pair:
    source, target = pair
    return source.upper(), target.upper()


def lower_case(rng: random.Random, pair: Pair) -> Pair:
    """Write the source without capitals, sometimes without apostrophes; the translation keeps both."""
    source, target = pair
    source = source.lower()
    return source.replace("'", "") if rng.random() < 0.3 else source, target


def no_final_punctuation(rng: random.Random, pair: Pair) -> Pair | None:
    source, target = (FINAL_PUNCTUATION.sub("", side) for side in pair)
    return (source, target) if (source, target) != pair and source and target else None


NEIGHBOURS = dict(
    zip(
        "qwertyuiopasdfghjklzxcvbnm",
        "wa qes wrd etf ryg tuh yij uok ipl ol qsz awdx sefc drgv fthb gyjn hukm jil kop asx zsdc xdfv cfgb vghn bhjm "
        "njk".split(),
        strict=True,
    )
)
VOWELS = "aeiou"


def typing_errors(rng: random.Random, pair: Pair) -> Pair | None:
    """Make one to three typing errors in the source.

    A letter is swapped with its neighbour, omitted, doubled or replaced with that of a neighbouring key, or a vowel is
    replaced with another one ("definately").
    """
    source, target = pair
    words = source.split(" ")
    candidates = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    if not candidates:
        return None
    for i in rng.sample(candidates, min(rng.randint(1, 3), len(candidates))):
        words[i] = _mistype(rng, words[i])
    return " ".join(words), target


def _mistype(rng: random.Random, word: str) -> str:
    index = rng.randrange(1, len(word) - 1)  # people rarely mistype first and last letters
    before, letter, after = word[:index], word[index], word[index + 1 :]
    return rng.choice(
        [
            before + after[0] + letter + after[1:],
            before + after,
            before + letter + letter + after,
            before + rng.choice(NEIGHBOURS.get(letter, letter)) + after,
            *([before + rng.choice(VOWELS.replace(letter, "")) + after] if letter in VOWELS else []),
        ]
    )


FINAL_PUNCTUATION = re.compile(r"[\s.!?…]+$")


def forms(pair: Pair) -> list[Pair]:
    """Return a phrase in every form that users type: with and without final punctuation, in lower case, in capitals.

    The target has the same punctuation and capitals as the source, except that a source in lower case gets a
    translation with the usual capitals.
    """
    source, target = (FINAL_PUNCTUATION.sub("", side) for side in pair)
    if not source or not target:
        return [pair]
    punctuated = [pair, (source, target)]
    if not pair[0].endswith("?"):
        punctuated.append((f"{source}.", f"{target}."))
    lower = [(source.lower(), target) for source, target in punctuated]
    upper = [(source.upper(), target.upper()) for source, target in punctuated[:2]]
    return list(dict.fromkeys([*punctuated, *lower, *upper]))


# Strings that a translation keeps -------------------------------------------------------------------------------------

EMOJI = "😀😂😊😍😎😢😭😡🤔🙏👍👎👋💪🎉🎂🎄🎁❤💔⭐🔥✨☀🌧❄🌍🚗🚲✈🏠🏥🏫📧📞📅📎🔒🔑✅❌⚠🍕🍺☕🍎🐶🐱🐟🌲🌹⚽🎵📷💡"
SYMBOLS = "-?!.…*#=+/&%$§~_ "
FOREIGN = [
    "абвгдежзиклмнопрстуфхцчшыя",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "的一是不了人我在有他这中大来上国",
    "ابتثجحدرزسشصطعفقكلمنهوي",
]


def exchanged(rng: random.Random, pair: Pair) -> Pair | None:
    """Replace names and numbers that both sides share with addresses, placeholders, other names and so on."""
    words = _shared_words(pair)
    if not words:
        return None
    replacements = {
        word: invent(rng, ("number" if word.isdigit() else "name") if rng.random() < 0.7 else None)
        for word in rng.sample(words, rng.randint(1, len(words)))
    }
    return tuple(_replace_words(side, replacements) for side in pair)


def appended(rng: random.Random, pair: Pair) -> Pair:
    """Add a string that is copied, before or after the text."""
    string = invent(rng)
    before, after = rng.choice(
        [("", f" {string}"), ("", f": {string}"), (f"{string} ", ""), (f"{string}: ", ""), ("", f" ({string})")]
    )
    return tuple(f"{before}{side}{after}" for side in pair)


def with_emoji(rng: random.Random, pair: Pair) -> Pair:
    emoji, space = "".join(rng.choices(EMOJI, k=rng.choice([1, 1, 2, 3]))), rng.choice(["", " "])
    if rng.random() < 0.25:
        return tuple(f"{emoji}{space}{side}" for side in pair)
    return tuple(f"{side}{space}{emoji}" for side in pair)


TAGS = ["b", "i", "p", "u", "em", "strong", "span", "h1", "li", "td", "code", "div"]


def in_tags(rng: random.Random, pair: Pair) -> Pair:
    """Put the whole text, or a word that both sides share, between tags or Markdown marks."""
    tag, url = rng.choice(TAGS), invent(rng, "url")
    attribute = rng.choice(["", "", "", f' class="{invent(rng, "code")}"', f' id="{rng.randint(1, 99)}"'])
    opening, closing = rng.choice(
        [
            *[(f"<{tag}{attribute}>", f"</{tag}>")] * 4,
            (f'<a href="{url}">', "</a>"),
            ("[", f"]({url})"),
            ("**", "**"),
            ("*", "*"),
            ("", "<br/>"),
        ]
    )
    words = _shared_words(pair)
    if words and rng.random() < 0.7:
        word = rng.choice(words)
        return tuple(_replace_words(side, {word: f"{opening}{word}{closing}"}) for side in pair)
    return tuple(f"{opening}{side}{closing}" for side in pair)


def in_list(rng: random.Random, pair: Pair) -> Pair:
    number, letter = rng.randint(1, 20), rng.choice("abcdef")
    markers = ["-", "*", "•", "–", ">", "[ ]", "#", "##", f"{number}.", f"{number})", f"({number})", f"{letter})"]
    marker = rng.choice(markers)
    return tuple(f"{marker} {side}" for side in pair)


def copied(rng: random.Random, pair: Pair) -> Pair:
    """Make a text that is its own translation: addresses, numbers, symbols, other scripts, or the target itself."""
    script = rng.choice(FOREIGN)
    text = rng.choice(
        [
            invent(rng),
            " ".join(invent(rng) for _ in range(rng.randint(2, 4))),
            "".join(rng.choices(SYMBOLS, k=rng.randint(1, 5))).strip() or "-",
            "".join(rng.choices(EMOJI, k=rng.randint(1, 4))),
            " ".join("".join(rng.choices(script, k=rng.randint(1, 8))) for _ in range(rng.randint(1, 8))),
            pair[1],
        ]
    )
    return text, text


# Capitalised words and numbers, but not inside an address, a tag or a placeholder.
WORD = re.compile(r"(?<![\w<{%$@/.:-])[A-Z0-9][\w]*(?![\w>}@/:-])")


def _shared_words(pair: Pair) -> list[str]:
    """Return the capitalised words and numbers that occur once on each side: presumably their own translations."""
    source, target = (WORD.findall(side) for side in pair)
    return sorted({word for word in source if len(word) > 1 and source.count(word) == target.count(word) == 1})


def _replace_words(text: str, replacements: dict[str, str]) -> str:
    return WORD.sub(lambda match: replacements.get(match[0], match[0]), text)


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        *(capitals, lower_case, no_final_punctuation, typing_errors),
        *(exchanged, appended, with_emoji, in_tags, in_list, copied),
    )
}
