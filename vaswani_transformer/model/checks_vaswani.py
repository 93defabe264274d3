"""What a translation must keep, and signs of a bad translation that can be checked without understanding it.

translate-toolkit's `filters.checks` cannot be used here: they are under the GPL, while this file travels to
repositories on the Hub, and they report failed checks, not the numbers and items that a retry must produce.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import takewhile

from .items_vaswani import kept_items, outside_kept_items
from .lemmas_vaswani import has_word, without_accents
from .number_forms_vaswani import usual_forms
from .numbers_vaswani import (
    LANGUAGES,
    NEUTRAL,
    RANGE,
    SHORT_SCALES,
    SPACES,
    Language,
    Number,
    can_match,
    compare_numbers,
    is_month,
    read_numbers,
)


# Units that every language spells alike, and words for them. "GB" is "Go" in French.
UNITS = {
    "mm": "millim", "cm": "[cz]entim", "km": "kilom|stundenkilom", "m": "m[eè]t(?:er|re)", "mg": "millig",
    "kg": "kilo", "g": r"gr(?:\b|am)", "ml": "millil", "cl": "[cz]entil", "l": "lit(?:er|re)", "kW": "kilow",
    "W": "watt", "V": "volt", "Hz": "hertz", "kHz": "kiloh", "MHz": "m[eé]gah", "GHz": "gigah",
    "kB": "ko|kilo", "MB": "mo|m[eé]ga", "GB": "go|giga", "TB": "to|t[eé]ra", "°C": "°|grad|deg", "°F": "°|grad|deg",
    "%": "per ?cent|pour[- ]?cent|prozent|v\\. ?h\\.", "mph": "meile|mil(?:le|es)",
    "km/h": "kmh|kph|kilom|stundenkilom", "lb": "pfund|livre|pound", "oz": "unze|once|ounce", "ft": "fu[ßs]|pied|f[eo]",
    "m²": "qm|quadrat|m2|m[eè]tres? carr|sq",
    "kWh": "kilowatt",
}  # fmt: skip
CURRENCIES = {"$": r"\$|dollar|usd", "€": "€|eur", "£": "£|pfund|pound|livre|sterling|gbp"}
CURRENCY_WORD = re.compile(rf"[{SPACES}](?:de |d['’])?(?:(dollars?)|(euros?))\b", re.IGNORECASE)  # after a number
# Units after a slash ("$15/hr", "4 €/kg"), and patterns for the same units in English, German and French translations.
PER = {
    "hr|h|hour|Std|Stunde|heure": r"hr|h\b|hour|Std|Stunde|stünd|heure|horaire",
    "day|Tag|jour|j": r"day|dai|Tag|täg|jour|quotid|j\b",
    "wk|week|Woche|semaine|sem": "week|wk|Woche|wöch|sem|hebdo",
    "mo|mth|month|Mon|Monat|mois": r"month|mth|mo\b|mon|mois|mensu",
    "yr|year|Jahr|an": r"year|yr|annu|Jahr|jähr|ans?\b",
    "night|Nacht|nuit": "night|Nacht|nuit",
    "person|Person|Pers|personne": "person|pers|head|Kopf|each",
    "kg": "kg|kilo",
    "lb|Pfund|livre": "lb|pound|Pfund|livre",
    "l|liter|litre|Liter": r"l\b|lit",
    "m²|m2|sqm|qm": "m²|m2|sq|qm|Quadrat|m[eè]tres? carr",
}
AFTER_SLASH = {unit: words for units, words in PER.items() for unit in units.split("|")}
_units = "|".join(sorted(AFTER_SLASH, key=len, reverse=True))
# What follows a number: up to three characters, such as a currency sign, a slash and a unit. UNITS has km/h.
RATE = re.compile(rf"[{SPACES}]?(?!km)\S{{0,3}}[{SPACES}]?/[{SPACES}]?({_units})(?!\w)")
UNIT = re.compile(rf"[{SPACES}-]?({'|'.join(sorted(UNITS, key=len, reverse=True))})(?![\w%/²³])")
MAX_SPELLED_OUT = 12  # numbers up to this one may be written as words, in languages whose words are not known
Languages = tuple[str | None, str | None]  # codes of the source's and the translation's language; None if unknown
TITLES = (
    "Mr Mrs Ms Miss Dr Prof Professor Herr Herrn Frau Fräulein Familie M(?=\\.) Mme Mlle Monsieur Madame Mademoiselle"
).split()
# Common first names that are not ordinary words in English, German or French.
FIRST_NAMES = (
    "Adam Alan Albert Alexander Alice Amanda Amy Andrea Andreas Andrew Angela Anja Anna Anne Anthony Antoine"
    " Aurélie Barbara Ben Benjamin Bernd Betty Birgit Bob Brian Brigitte Camille Carlos Carol Caroline Catherine"
    " Céline Charles Charlie Charlotte Chloé Christian Christine Christopher Clara Claude Claudia Daniel David"
    " Dennis Diana Dieter Donald Edward Elias Elisabeth Elizabeth Ellen Emil Emily Emma Eric Erik Eva Élodie Éric"
    " Felix Finn Florian François Françoise Fred Friedrich Fritz Gary Georg George Gérard Greta Günter Hannah Hans"
    " Harry Heidi Heike Heinz Helen Helga Henry Hélène Hugo Inès Ingrid Isabelle Jacob Jacques James Jane Janet"
    " Jason Jean Jeff Jennifer Jens Jessica Jim Joe Johanna John Jonas Jonathan Joseph Judy Julia Julie Julien"
    " Juliette Justin Jürgen Karen Karl Kate Katharina Kathleen Kathy Ken Kevin Klaus Larry Laura Laurent Lena"
    " Leon Leonie Léa Linda Lisa Louis Louise Lucas Lucy Lukas Maike Manon Marco Margaret Maria Marie Markus"
    " Martin Martina Mary Mathieu Matthew Matthias Max Melissa Mia Michael Michel Michelle Mike Monika Moritz"
    " Nancy Nathalie Nicholas Nick Nicolas Nicole Nina Noah Oliver Olivia Olivier Patricia Patrick Paul Pauline"
    " Peter Petra Philip Philipp Philippe Rachel Rebecca Renate Richard Robert Roger Ronald Ryan Sabine Sally Sam"
    " Samuel Sandra Sarah Sebastian Sharon Simon Sophia Sophie Stefan Stephanie Stephen Steve Steven Susan Susanne"
    " Sylvie Théo Thierry Thomas Tim Timothy Tobias Tom Tony Ursula Uwe Valérie Véronique Walter William Wolfgang"
    " Yannick Yusuf"
).split()
# Their forms in other languages; "Christian" may also be an adjective.
OTHER_FIRST_NAMES = {
    *FIRST_NAMES,
    *"Alexandre Ann Christophe Emilie Francis Franziskus Jack Johannes José Matthäus Nikolaus Sofia Sophy".split(),
    *"christlich christliche christlichen christlicher christliches chrétien chrétienne".split(),
}
PHONE = re.compile(r"\+?[\d\s()./-]*\d{2}[\d\s()./-]*")
NAME_LETTERS = 3  # letters with which both a name and its translation must begin
NAME = r"[^\W\d_]+(?:-[^\W\d_]+)*"
SURNAMES = rf"(?: {NAME})*"
AFTER_SAINT = re.compile(r"\bSainte?-([^\W\d_]+)")  # Saint-Étienne, but not Saint-Esprit
# Languages in which a capital inside a sentence marks a name; names that are translated but not in the dictionary.
TRANSLATED_NAMES = {
    "en": "",
    "fr": "Allemagne Angleterre Cisjordanie Internet Londres Mlle Moscou Otan Pays Pologne Russie Varsovie",
}
INSIDE_SENTENCE = re.compile(r"(?:(?<=[\w,] )|(?<=\w['’]))[A-ZÀ-Ý][a-zß-ÿ]{3,}\b(?!-[a-z])")
MIN_SIMILARITY = 0.5  # of a name and its form in another language: "Savitskaya", "Sawizkaja"
LAST_LATIN = 0x24F  # code point
AFTER_TITLE = re.compile(rf"\b(?:(?:{'|'.join(TITLES)})\.?[ \u00a0])+({NAME}{SURNAMES})")
AFTER_FIRST_NAME = re.compile(rf"\b((?:{'|'.join(FIRST_NAMES)})\b{SURNAMES})")
# Words with letters that the language does not have are names.
LETTERS = {"en": "", "de": "äöüß", "fr": "àâæçéèêëîïôœùûüÿ"}
# A text may have 2.5 times as many characters as its translation, and 40 more, and the reverse.
MAX_LENGTH_RATIO, LENGTH_MARGIN = 2.5, 40
WIDE_LETTERS = 3
MAX_REPETITIONS = 3  # of the same words or letters in a row
MAX_REPEATED_WORDS = 8  # in a group of words whose repetitions are counted


def find_problems(source: str, translation: str, languages: Languages = (None, None)) -> list[str]:
    """Describe what looks wrong with a translation: a longer list is worse, an empty one is good."""
    if not any(character.isalnum() for character in translation):
        return ["the translation is empty"]
    problems = []
    source_length, length = map(length_in_letters, (source, translation))
    if length > MAX_LENGTH_RATIO * source_length + LENGTH_MARGIN:
        problems.append("the translation is much longer than the source")
    if source_length > MAX_LENGTH_RATIO * length + LENGTH_MARGIN:
        problems.append("the translation is much shorter than the source")
    if count_repetitions(translation) > max(MAX_REPETITIONS, count_repetitions(source)):
        problems.append("the translation repeats itself")
    missing, extra = differing_numbers(source, translation, languages)
    lost = [
        *missing_items(source, translation),
        *(number.text for number in missing),
        *missing_measures(source, translation, languages),
        *missing_names(source, translation, languages[0]),
    ]
    problems += [f"{text} is missing from the translation" for text in lost]
    problems += [f"{number.text} is not in the source" for number in extra]
    if "\ufffd" in translation and "\ufffd" not in source:
        problems.append("a broken character was removed")
    return problems


def length_in_letters(text: str) -> int:
    """Return the number of characters; a Chinese, Japanese or Korean one counts as three letters."""
    if text.isascii():
        return len(text)
    return sum(WIDE_LETTERS if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def required_forms(source: str, translation: str, languages: Languages = (None, None)) -> list[tuple[str, ...]]:
    """Return the texts that a better translation must contain, each as a tuple of accepted forms.

    These are the numbers, measures and names that `translation` does not have, and the numbers, measures and word-like
    items that it has, so that the better translation does not lose them.
    """
    source_language, target_language = number_languages(languages)
    text = outside_kept_items(source)
    numbers = read_numbers(text, source_language)
    missing, _ = differing_numbers(source, translation, languages)
    required = [forms for number in missing if (forms := usual_forms(number, target_language))]
    measures = {number: number.text + unit for number, unit, _ in measures_of(numbers, text)}
    missing_texts = missing_measures(source, translation, languages)
    for number, measure in measures.items():
        if measure in missing_texts:
            unit = measure.removeprefix(number.text)
            in_digits = [form for form in usual_forms(number, target_language) if form[0].isdigit()]
            required.append(tuple(dict.fromkeys((measure, *(form + unit for form in in_digits)))))
    written = [measures.get(number, number.text) for number in numbers if number.text[0].isdigit()]
    preserved = [item for item in (*kept_items(source), *written) if item in translation]
    required += [(name,) for name in missing_names(source, translation, languages[0])]
    required += [(item,) for item in preserved if re.fullmatch(r"\w.*\w|\d", item)]
    return list(dict.fromkeys(required))


def differing_numbers(
    source: str, translation: str, languages: Languages = (None, None)
) -> tuple[list[Number], list[Number]]:
    """Return the numbers that are missing in the translation, and those in digits that only the translation has.

    In languages whose number words are unknown, numbers up to 12 may be words. Such numbers, and small ones that only
    the translation has, count only if one number is missing and another is new. A new amount of money always counts.
    """
    missing, extra = compare_numbers(*numbers_of(source, translation, languages))
    missing = [number for number in missing if number.is_required and not is_copied(number, translation)]
    extra = [number for number in extra if number.is_required and number.text[0].isdigit()]
    if not (missing and extra):
        has_words = number_languages(languages)[0] is not NEUTRAL
        missing = [number for number in missing if is_larger(number, 1 if has_words else MAX_SPELLED_OUT)]
        text = outside_kept_items(translation)
        extra = [x for x in extra if is_larger(x, MAX_SPELLED_OUT) or any(currencies((x,), text))]
    return missing, extra


def is_copied(number: Number, translation: str) -> bool:
    """Return whether a number word with a capital, which may belong to a name such as "BBC Two", is copied."""
    has_capital = number.text[0].isupper() and not is_month(number)
    return has_capital and re.search(rf"\b{re.escape(number.text)}\b", translation, re.I) is not None


def number_languages(languages: Languages) -> tuple[Language, Language]:
    """Return how both languages write numbers; numbers in words can only be compared if both languages are known."""
    source, target = (LANGUAGES.get(code or "") for code in languages)
    return (source, target) if source and target else (NEUTRAL, NEUTRAL)


def numbers_of(source: str, translation: str, languages: Languages) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    """Return the numbers of both texts, outside the items to keep."""
    source_language, target_language = number_languages(languages)
    return (
        read_numbers(outside_kept_items(source), source_language),
        read_numbers(outside_kept_items(translation), target_language),
    )


def is_larger(number: Number, limit: int) -> bool:
    """Return whether a number is larger than the limit in every reading; times and versions are."""
    return all(not isinstance(value, Decimal) or value > limit for value in number.values)


def missing_measures(source: str, translation: str, languages: Languages = (None, None)) -> list[str]:
    """Return the numbers with a unit, as the source writes them, whose unit is missing from the translation.

    A currency or a unit after a slash may be anywhere in the translation; other units must follow the number.
    """
    missing = []
    translated = outside_kept_items(translation)
    source_text = outside_kept_items(source)
    numbers, translated_numbers = numbers_of(source, translation, languages)
    for number, unit, words in measures_of(numbers, source_text):
        partners = [other for other in translated_numbers if can_match(number, other)]
        if unit in SHORT_SCALES and any(other.text[-1].isalpha() for other in partners):
            continue  # "1.7m" is "1,7 Millionen"
        ends = [end for other in partners for end in (other.end, end_of_range(other, translated_numbers, translated))]
        unit_after = re.compile(rf"[{SPACES}-]*(?:{unit.strip(SPACES + '-')}(?![^\W\d_])|{words})", re.IGNORECASE)
        if ends and not any(unit_after.match(translated, end) for end in ends):
            missing.append(number.text + unit)
    missing += [
        text
        for text, symbol in currencies(numbers, source_text)
        if not re.search(CURRENCIES[symbol], translation, re.IGNORECASE)
    ]
    for number in numbers:
        if rate := RATE.match(source_text, number.end):
            if not re.search(rf"(?<![^\W\d_])(?:{AFTER_SLASH[rate[1]]})", translated, re.IGNORECASE):
                missing.append(number.text + rate[0])
    return list(dict.fromkeys(missing))


def end_of_range(number: Number, numbers: tuple[Number, ...], text: str) -> int:
    """Return where the range that begins with a number ends, such as "25 to 30%", or where the number ends."""
    return next((other.end for other in numbers if RANGE.fullmatch(text, number.end, other.start)), number.end)


def measures_of(numbers: tuple[Number, ...], text: str) -> Iterator[tuple[Number, str, str]]:
    """Yield the numbers in digits with a unit after them, the unit, and the pattern of words for it."""
    for number in numbers:
        if number.text[0].isdigit() and (match := UNIT.match(text, number.end)):
            yield number, match[0], UNITS[match[1]]


def currencies(numbers: tuple[Number, ...], text: str) -> Iterator[tuple[str, str]]:
    """Yield the currencies before or after numbers, as the text has them, and their signs."""
    for number in numbers:
        around = text[max(0, number.start - 2) : number.start] + text[number.end : number.end + 2]
        yield from ((symbol, symbol) for symbol in CURRENCIES if symbol in around)
        if number.is_required and (word := CURRENCY_WORD.match(text, number.end)):
            yield word[word.lastindex or 1], "$€"[(word.lastindex or 1) - 1]


def missing_items(source: str, translation: str) -> list[str]:
    """Return the items to keep that occur less often in the translation than in the source.

    Telephone numbers may be written in another way, with the same digits.
    """
    items = Counter(kept_items(source))
    missing = [item for item, count in items.items() if count_item(item, translation) < count]
    digits = {digits_of(item) for item in kept_items(translation)} if missing else set()
    return [item for item in missing if not (PHONE.fullmatch(item) and digits_of(item) in digits)]


def count_item(item: str, text: str) -> int:
    """Count an item in a text; a rating or a row of emoji is not a part of a longer one."""
    if item.isascii() or any(map(str.isalnum, item)):
        return text.count(item)
    first, last = re.escape(item[0]), re.escape(item[-1])
    return len(re.findall(rf"(?<!{first}){re.escape(item)}(?!{last})", text))


def digits_of(text: str) -> str:
    return re.sub(r"\D", "", text)


def missing_names(source: str, translation: str, language: str | None = None) -> list[str]:
    """Return the names in the source of which nothing is left in the translation.

    Only names that other languages keep are checked: after a title, common first names and the names after them,
    saints and words with foreign letters must keep their first letters. English and French words with a capital that
    the dictionary does not have must be similar to a word of the translation. Other words with capitals may have to be
    translated: "Vienna", "Friday", "President". Translations in other scripts are not checked.
    """
    words = re.findall(r"[^\W\d_]+", translation)
    letters = "".join(words)
    if 2 * sum(ord(letter) > LAST_LATIN for letter in letters) > len(letters):
        return []
    beginnings = {beginning(word) for word in words}
    missing = [
        name
        for name in names(source, language)
        if beginning(name) not in beginnings or (name in FIRST_NAMES and not has_first_name(name, words))
    ]
    if language == "de":
        missing += [name for name in german_surnames(source, translation) if beginning(name) not in beginnings]
    capitals = [word for word in words if word[0].isupper()]
    if language in TRANSLATED_NAMES:
        unknown = (name for name in unknown_words(source, language) if beginning(name) not in beginnings)
        missing += [name for name in unknown if not any(is_similar(name, word) for word in capitals)]
    return list(dict.fromkeys(missing))


def has_first_name(name: str, words: Sequence[str]) -> bool:
    """Return whether the words include this first name, with or without accents, or another that begins like it.

    The beginning alone is not enough, because a model may copy only that: "Philiporris" for Philip.
    """
    forms = {folded(name) + ending for ending in ("", "s", "es")}
    similar = (word for word in words if beginning(word) == beginning(name))
    return any(folded(word) in forms or {word, word.removesuffix("s")} & OTHER_FIRST_NAMES for word in similar)


def unknown_words(text: str, language: str) -> Iterator[str]:
    """Yield the words with a capital inside an English or French text that the dictionary does not have: names."""
    for match in INSIDE_SENTENCE.finditer(outside_kept_items(text)):
        is_known = [has_word(word, language) for word in (match[0], match[0].removesuffix("s"))]
        if is_known == [False, False] and match[0] not in TRANSLATED_NAMES[language].split():
            yield match[0]


def is_similar(name: str, word: str) -> bool:
    letters = (without_accents(text.lower()) for text in (name, word))
    return SequenceMatcher(None, *letters).ratio() >= MIN_SIMILARITY


def names(text: str, language: str | None) -> Iterator[str]:
    """Yield the names in a text; `language` is its code."""
    text = outside_kept_items(text)
    for match in AFTER_TITLE.finditer(text):
        yield from capitalised(match[1])
    for match in AFTER_FIRST_NAME.finditer(text):
        # In German, a noun may follow: "dass Tom Hilfe braucht".
        yield from capitalised(match[1] if language in ("en", "fr") else match[1].partition(" ")[0])
    yield from (match[1] for match in AFTER_SAINT.finditer(text) if has_word(match[1], "fr") is False)
    if language in LETTERS:
        native = f"abcdefghijklmnopqrstuvwxyz-{LETTERS[language]}"
        foreign = (word for word in re.findall(NAME, text) if not {*word.lower()} <= {*native})
        yield from filter(looks_like_name, foreign)


def is_person(text: str, language: str | None) -> bool:
    """Return whether a text is only a person's name, as in a signature. A model would try to translate it.

    Such a text is a common first name and one or two more words with capitals. In English and French, these must be
    missing from the dictionary; two or three missing words without a common first name also count.
    """
    words = text.removesuffix(",").split(" ")
    if not 2 <= len(words) <= 3 or not all(re.fullmatch(NAME, word) and looks_like_name(word) for word in words):
        return False
    has_first_name = words[0] in FIRST_NAMES and words[0] not in ("Adam", "Max")  # an optimiser, a maximum
    if language not in TRANSLATED_NAMES:
        return has_first_name
    return all(has_word(word, language) is False for word in (words[1:] if has_first_name else words))


def german_surnames(source: str, translation: str) -> Iterator[str]:
    """Yield words with capitals after a common first name, if another word with a capital is in their place.

    In "dass Tom Hilfe braucht" a noun follows, whose translation begins in lower case.
    """
    for first, surname in re.findall(rf"\b({'|'.join(FIRST_NAMES)}) ({NAME})", outside_kept_items(source)):
        if looks_like_name(surname) and re.search(rf"\b{first} [A-ZÀ-Ý][a-zß-ÿ]", translation):
            yield surname


def capitalised(words: str) -> Iterator[str]:
    """Yield the words up to the first one that does not look like a name."""
    yield from takewhile(looks_like_name, words.split(" "))


def looks_like_name(word: str) -> bool:
    return word[0].isupper() and len(word) >= NAME_LETTERS and not word.isupper()


def beginning(word: str) -> str:
    """Return the first letters of a word in lower case and without accents: "mun" of "München", "kar" of "Carlos"."""
    return folded(word)[:NAME_LETTERS]


def folded(word: str) -> str:
    """Return the letters of a word in lower case and without accents, with one spelling for c and k, ph and f."""
    letters = filter(str.isalpha, unicodedata.normalize("NFKD", word.casefold()))
    return "".join(letters).replace("c", "k").replace("ph", "f")


def count_repetitions(text: str) -> int:
    """Return how many times in a row the same words, or the same letters inside a word, occur at most."""
    words = text.lower().split()
    highest = 1
    for length in range(1, min(MAX_REPEATED_WORDS, len(words) // 2) + 1):
        repeated = 0  # words in a row that equal the word `length` places before
        for i in range(length, len(words)):
            repeated = repeated + 1 if words[i] == words[i - length] else 0
            highest = max(highest, repeated // length + 1)
    for match in re.finditer(r"([^\W\d]{2,8}?)\1{3,}", text.lower()):
        highest = max(highest, len(match[0]) // len(match[1]))
    return highest
