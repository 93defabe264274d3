"""What a translation must keep, and signs by which a poor one is known without understanding it."""

import re
from collections import Counter


# What is copied, not translated: it means the same in every language, or something to a program.
KEPT_ITEM = re.compile(
    r"""
      (?:\b[A-Za-z][A-Za-z\d+.-]*://|\bmailto:)[^\s<>"'»“”]*[^\s<>"'»“”.,;:!?)\]}]   # URLs
    | www\.[^\s<>"'»“”]*[^\s<>"'»“”.,;:!?)\]}]
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                                        # e-mail addresses
    | \{\{[^{}]{1,80}\}\} | \$?\{[^{}\s]*\}                               # {{ name }}, {name}, ${name}
    | (?<=\s):[a-z]\w+ | \[[A-Z][A-Z\d_ ]*\](?!\()                        # :name, [NAME]
    | %(?:\(\w+\)|\d+\$)?[-+\#0]*\d*(?:\.\d+)?[sdifgxXeEcu@](?!\w) | %%   # %s, %(name)s, %1$d, %.2f
    | <(code|kbd|samp|var)\b[^<>]*>[^<>]*</\1>                            # <code>text</code>
    | </?[A-Za-z][^<>]*>                                                  # <b>, </a>, <x id="1"/>
    | &(?:\w+|\#\d+|\#x[0-9A-Fa-f]+);                                     # &nbsp;
    | `[^`\s](?:[^`]*[^`\s])?`                                            # `code`
    | \[(?=[^][]+\]\([^()\s]+\)) | \]\([^()\s]+\)                        # [ and ](address)
    | (?<![\w*])\*{1,3}(?=\w) | (?<=[\w.!?])\*{1,3}(?![\w*])            # *, **
    | (?<![\w/-])(?:[A-Za-z]:\\|\.{0,2}/)[\w.~+-]+(?:[/\\][\w.~+-]+)+      # C:\a\b, /usr/bin
    | (?<![\w-])--[A-Za-z][\w-]*                                         # --option
    | \b\w+_\w+\b(?:\(\))?                                                # snake_case
    | (?<!\w)[@\#]\w+                                                     # @someone, #topic
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)                      # 10.0.0.1
    | (?<!\w)\+\d{1,3}(?:[ \u00a0-]\d{1,5}){2,}\b                         # +33 1 99 00 47 32
    | \b0x[0-9A-Fa-f]+\b | \b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b   # 0x80070057, UUIDs
    | [\u2600-\u27BF\U0001F000-\U0001FAFF]                                # emoji, also several as one
      (?:[\uFE0F\U0001F3FB-\U0001F3FF]|\u200D[\u2600-\u27BF\U0001F000-\U0001FAFF])*
    """,
    re.VERBOSE,
)
NUMBER = re.compile(r"\d+(?:[.,'’ \u00a0\u202f]\d{3}(?!\d))*")  # with its thousands; decimals are another
WRITTEN_NUMBER = re.compile(r"\d+(?:[.,:/'’]\d+)*")
UNIT = "mm|cm|km|m|mg|kg|g|ml|cl|l|kW|W|V|Hz|kHz|MHz|GHz|°C|°F|%"  # written alike in every language
MEASURE = re.compile(rf"(?<![$£€\w.,])(\d+(?:[.,]\d+)*)[ \u00a0\u202f-]?({UNIT})(?![\w%])")
WORDS_FOR_UNITS = {
    "%": "p(?:er cent|our cent|ercent|rozent)",
    "°C": r"[dg]\w{3}",
    "cm": r"[cz]\w{3}",
    "cl": r"[cz]\w{3}",
}
OTHER_DECIMALS = str.maketrans(".,", ",.")
CLOCK = re.compile(r"\d\s*[ap]\.?m\b|\bo['’]clock\b|\bUhr\b|\d\s*h(?:eures?)?\b", re.IGNORECASE)
SPELLED = 12  # numbers up to here may be written as words
MOST_TIMES_LONGER, MARGIN = 2.5, 40  # characters; longer or shorter than that no translation is
MOST_IN_A_ROW = 3  # times that the same words or letters stand one after the other


def kept_items(text: str) -> list[str]:
    """URLs, e-mail addresses, placeholders, tags, paths and the like, in their order."""
    return [match[0] for match in KEPT_ITEM.finditer(text)]


def outside_kept_items(text: str) -> str:
    return KEPT_ITEM.sub(" ", text)


def problems(source: str, translation: str) -> list[str]:
    """What looks wrong with a translation, in words, the more the worse; nothing where all looks well."""
    found = []
    if not any(character.isalnum() for character in translation):
        return ["it is empty"]
    if len(translation) > MOST_TIMES_LONGER * len(source) + MARGIN:
        found.append("it is much longer than the source")
    if len(source) > MOST_TIMES_LONGER * len(translation) + MARGIN:
        found.append("it is much shorter than the source")
    if times_in_a_row(translation) > max(MOST_IN_A_ROW, times_in_a_row(source)):
        found.append("it repeats itself")
    found += [f"it lacks {item}" for item in missing_items(source, translation)]
    if numbers := differing_numbers(source, translation):
        found.append(f"numbers differ: {', '.join(numbers)}")
    else:
        found += [f"it lacks {measure}" for measure in missing_measures(source, translation)]
    if "\ufffd" in translation and "\ufffd" not in source:
        found.append("a character is broken")
    return found


def must_hold(source: str, translation: str) -> list[tuple[str, ...]]:
    """What a better translation than this one must hold, each in one of several forms.

    That is the numbers and measures that this one lacks, and what it has kept of them and of items that are words.
    """
    text = outside_kept_items(source)
    numbers, measures = WRITTEN_NUMBER.findall(text), [match[0] for match in MEASURE.finditer(text)]
    missing = missing_numbers(source, translation) + missing_measures(source, translation)
    kept = [one for one in (*kept_items(source), *measures, *numbers) if one in translation]
    words = [one for one in dict.fromkeys(missing + kept) if re.fullmatch(r"\w.*\w|\d", one)]
    alone = [one for one in words if one not in numbers or not any(one in measure for measure in measures)]
    return [(one, one.translate(OTHER_DECIMALS)) if one in measures else (one,) for one in alone]


def missing_numbers(source: str, translation: str) -> list[str]:
    """The numbers that the translation lacks, as the source writes them."""
    differing = differing_numbers(source, translation)
    written = WRITTEN_NUMBER.findall(outside_kept_items(source))
    return [n for n in written if n not in translation and any(digits(x) in differing for x in NUMBER.findall(n))]


def missing_measures(source: str, translation: str) -> list[str]:
    """The numbers with a unit, as the source writes them, of which the translation has another unit or none."""
    missing = []
    for match in MEASURE.finditer(outside_kept_items(source)):
        number, unit = match.groups()
        as_word = WORDS_FOR_UNITS.get(unit, rf"{re.escape(unit[0])}\w{{3}}")  # Milligramm; others begin otherwise
        followed = rf"[ \u00a0\u202f-]?(?:{re.escape(unit)}(?![A-Za-z])|(?i:{as_word}))"
        written = re.sub("[.,]", "[.,'’ \u00a0\u202f]?", number)
        is_word = int(digits(number)) <= SPELLED and not re.search(rf"(?<!\d){written}(?!\d)", translation)
        if not is_word and not re.search(rf"(?<!\d){written}{followed}", translation):
            missing.append(match[0])
    return missing


def missing_items(source: str, translation: str) -> list[str]:
    """The items to keep that the translation does not have as often as the source."""
    items = Counter(kept_items(source))
    return [item for item, count in items.items() if translation.count(item) < count]


def differing_numbers(source: str, translation: str) -> list[str]:
    """The numbers of the source that the translation lacks, or else those that it has made up.

    A small one may become a word, and words one, so that it is missed only where another stands in its place. Times of
    the day are written differently in each language, and are not compared.
    """
    if CLOCK.search(source) or CLOCK.search(translation):
        return []
    of_source, of_translation = (
        Counter(map(digits, NUMBER.findall(outside_kept_items(x)))) for x in (source, translation)
    )
    missing, extra = of_source - of_translation, of_translation - of_source
    is_small = {number: int(number) <= SPELLED for number in missing | extra}
    strict = [number for number in (*missing, *extra) if not is_small[number]]
    return strict or (sorted(missing) if missing and extra else [])


def digits(number: str) -> str:
    """Without what separates thousands, which languages write differently."""
    return re.sub(r"\D", "", number).lstrip("0") or "0"


def times_in_a_row(text: str) -> int:
    """How often one to eight words, or a few letters in a long word, stand one after the other at most."""
    words = text.lower().split()
    most = 1
    for length in range(1, min(8, len(words) // 2) + 1):
        run = 0
        for i in range(length, len(words)):
            run = run + 1 if words[i] == words[i - length] else 0
            most = max(most, run // length + 1)
    for match in re.finditer(r"([^\W\d]{2,8}?)\1{3,}", text.lower()):
        most = max(most, len(match[0]) // len(match[1]))
    return most
