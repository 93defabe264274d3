"""What people type and corpora lack: made from the pairs of a corpus as it is read.

Corpora hold clean sentences, one at a time. People send capitals, typing errors, lists, several sentences, addresses,
placeholders, tags and emoji, and expect the last four back exactly as they were. Each kind here is a function from a
pair to another pair of the same meaning; a recipe says of how many pairs each is made (`data.variations`).
"""

import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from .invented import invent


Pair = tuple[str, str]
Kind = Callable[[random.Random, Pair], Pair | None]

MOST_SENTENCES = 6  # that a text of several is made of


def vary(pairs: Iterable[Pair], joined: float, shares: dict[str, float], max_length: int, seed: str) -> Iterator[Pair]:
    """Yields every pair, followed by variations of some of them; the same seed yields the same.

    A share `joined` of the pairs is followed by a text of several sentences, up to about `max_length` tokens long: the
    last two to six pairs. `shares` are those of the `KINDS`.
    """
    rng, last = random.Random(seed), deque[Pair](maxlen=MOST_SENTENCES)
    for pair in pairs:
        yield pair
        last.append(pair)
        if rng.random() < joined and len(last) > 1:
            yield _join(list(last)[-rng.randint(2, len(last)) :], 3 * max_length)
        for name, share in shares.items():
            if rng.random() < share and (varied := KINDS[name](rng, pair)):
                yield varied


def _join(pairs: list[Pair], characters: int) -> Pair:
    """The last pairs as one: two, and as many more as `characters` have room for."""
    while len(pairs) > 2 and sum(len(source) for source, _ in pairs) > characters:
        pairs = pairs[1:]
    return tuple(" ".join(side) for side in zip(*pairs, strict=True))


# Other ways to write the same ----------------------------------------------------------------------------------------


def capitals(rng: random.Random, pair: Pair) -> Pair:
    source, target = pair
    return source.upper(), target.upper()


def lower_case(rng: random.Random, pair: Pair) -> Pair:
    """A source typed without capitals, at times without apostrophes; the translation is written as it should be."""
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


def typing_errors(rng: random.Random, pair: Pair) -> Pair | None:
    """One to three slips in the source: letters exchanged, left out, doubled, or a neighbour's key."""
    source, target = pair
    words = source.split(" ")
    long = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    if not long:
        return None
    for i in rng.sample(long, min(rng.randint(1, 3), len(long))):
        words[i] = _slip(rng, words[i])
    return " ".join(words), target


def _slip(rng: random.Random, word: str) -> str:
    at = rng.randrange(1, len(word) - 1)  # first and last letters are seldom wrong
    before, letter, after = word[:at], word[at], word[at + 1 :]
    return rng.choice(
        [
            before + after[0] + letter + after[1:],
            before + after,
            before + letter + letter + after,
            before + rng.choice(NEIGHBOURS.get(letter, letter)) + after,
        ]
    )


FINAL_PUNCTUATION = re.compile(r"[\s.!?…]+$")


def forms(pair: Pair) -> list[Pair]:
    """A phrase in every form that people type: with and without final punctuation, in lower case and in capitals.

    The target follows the source's punctuation and capitals, except that a source in lower case has a translation with
    the usual capitals.
    """
    source, target = (FINAL_PUNCTUATION.sub("", side) for side in pair)
    if not source or not target:
        return [pair]
    spelled = [pair, (source, target)]
    if not pair[0].endswith("?"):
        spelled.append((f"{source}.", f"{target}."))
    lower = [(source.lower(), target) for source, target in spelled]
    upper = [(source.upper(), target.upper()) for source, target in spelled[:2]]
    return list(dict.fromkeys([*spelled, *lower, *upper]))


# Things that stay as they are ----------------------------------------------------------------------------------------

EMOJI = "😀😂😊😍😎😢😭😡🤔🙏👍👎👋💪🎉🎂🎄🎁❤💔⭐🔥✨☀🌧❄🌍🚗🚲✈🏠🏥🏫📧📞📅📎🔒🔑✅❌⚠🍕🍺☕🍎🐶🐱🐟🌲🌹⚽🎵📷💡"
SYMBOLS = "-?!.…*#=+/&%$§~_ "
FOREIGN = [
    "абвгдежзиклмнопрстуфхцчшыя",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "的一是不了人我在有他这中大来上国",
    "ابتثجحدرزسشصطعفقكلمنهوي",
]


def exchanged(rng: random.Random, pair: Pair) -> Pair | None:
    """Words that both sides share, names and numbers, become addresses, placeholders, other names..."""
    words = _shared_words(pair)
    if not words:
        return None
    things = {
        word: invent(rng, ("number" if word.isdigit() else "name") if rng.random() < 0.7 else None)
        for word in rng.sample(words, rng.randint(1, len(words)))
    }
    return tuple(_replace_words(side, things) for side in pair)


def appended(rng: random.Random, pair: Pair) -> Pair:
    """Something that is copied, before the text or behind it."""
    thing = invent(rng)
    before, after = rng.choice(
        [("", f" {thing}"), ("", f": {thing}"), (f"{thing} ", ""), (f"{thing}: ", ""), ("", f" ({thing})")]
    )
    return tuple(f"{before}{side}{after}" for side in pair)


def with_emoji(rng: random.Random, pair: Pair) -> Pair:
    some, space = "".join(rng.choices(EMOJI, k=rng.choice([1, 1, 2, 3]))), rng.choice(["", " "])
    if rng.random() < 0.25:
        return tuple(f"{some}{space}{side}" for side in pair)
    return tuple(f"{side}{space}{some}" for side in pair)


TAGS = ["b", "i", "p", "u", "em", "strong", "span", "h1", "li", "td", "code", "div"]


def in_tags(rng: random.Random, pair: Pair) -> Pair:
    """The whole text, or a word that both sides share, between tags or the marks of Markdown."""
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
    """A text that is its own translation: addresses, numbers, symbols, another script, or the target's language."""
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


# Not inside an address, a tag or a placeholder.
WORD = re.compile(r"(?<![\w<{%$@/.:-])[A-Z0-9][\w]*(?![\w>}@/:-])")


def _shared_words(pair: Pair) -> list[str]:
    """Capitalised words and numbers that stand once on each side, and so are taken to be their own translation."""
    source, target = (WORD.findall(side) for side in pair)
    return sorted({word for word in source if len(word) > 1 and source.count(word) == target.count(word) == 1})


def _replace_words(text: str, others: dict[str, str]) -> str:
    return WORD.sub(lambda found: others.get(found[0], found[0]), text)


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        *(capitals, lower_case, no_final_punctuation, typing_errors),
        *(exchanged, appended, with_emoji, in_tags, in_list, copied),
    )
}
