"""Numbers and ordinals, in words and in digits."""

import random
import re

from .values import Draw, Value, ways


EN_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
DE_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
).split()
DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
FR_ONES = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
).split()
FR_TENS = "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def number_words(number: int, language: str, feminine: bool = False) -> str:
    """Write a number from 0 to 9999 in words; `feminine` is for French: vingt et une heures."""
    if not 0 <= number <= 9999:
        raise ValueError(f"{number} is not a number from 0 to 9999")
    words = {"en": _english, "de": _german, "fr": _french}[language](number)
    # A final "un" follows a space or a hyphen; onze does not match.
    return re.sub(r"\bun$", "une", words) if feminine else words


def _english(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    words = [f"{EN_ONES[thousands]} thousand"] * (thousands > 0) + [f"{EN_ONES[hundreds]} hundred"] * (hundreds > 0)
    if below or not words:
        words += ["and"] * bool(words)
        tens, ones = divmod(below, 10)
        words.append(EN_ONES[below] if below < 20 else EN_TENS[tens - 2] + (f"-{EN_ONES[ones]}" if ones else ""))
    return " ".join(words)


def _german(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    words = ""
    if thousands:
        words += ("" if thousands == 1 else DE_ONES[thousands]) + "tausend"
    if hundreds:
        words += ("" if hundreds == 1 and not thousands else DE_ONES[hundreds].replace("eins", "ein")) + "hundert"
    tens, ones = divmod(below, 10)
    if below and below < 20 or not words and not below:
        return words + DE_ONES[below]
    ones_words = DE_ONES[ones].replace("eins", "ein") + "und" if ones else ""
    return words + (ones_words + DE_TENS[tens - 2] if below else "")


def _french(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    words = [] if not thousands else ["mille"] if thousands == 1 else [FR_ONES[thousands], "mille"]
    if hundreds:
        words += [FR_ONES[hundreds]] * (hundreds > 1) + ["cents" if hundreds > 1 and not below else "cent"]
    if below or not words:
        tens, ones = divmod(below, 10)
        if below < 20:
            words.append(FR_ONES[below])
        elif below == 80:
            words.append("quatre-vingts")
        else:
            ones += 10 * (tens in (7, 9))
            joint = " et " if ones in (1, 11) and tens < 8 else "-"
            words.append(FR_TENS[tens - 2] + (joint + FR_ONES[ones] if ones else ""))
    return " ".join(words)


# Ordinals above 99 are written in digits only.
EN_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"}
EN_ORDINALS |= {"nine": "ninth", "twelve": "twelfth"}
DE_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
FR_ORDINALS = {"cinq": "cinquième", "neuf": "neuvième", "vingts": "vingtième"}


def ordinal_words(number: int, language: str, form: str = "") -> str:
    """Write an ordinal from 1 to 99 in words.

    Args:
        form: The German ending (e, en, er, es), or "f" for the French feminine.

    Raises:
        ValueError: The number is out of range.
    """
    if not 1 <= number <= 99:
        raise ValueError(f"{number} is not a number from 1 to 99")
    words = number_words(number, language)
    if language == "en":
        head, last = re.fullmatch(r"(.*?)(\w+)", words).groups()
        return head + EN_ORDINALS.get(last, last[:-1] + "ieth" if last.endswith("y") else last + "th")
    if language == "de":
        return DE_ORDINALS.get(number, words + ("t" if number < 20 else "st")) + (form or "e")
    if number == 1:
        return "première" if form == "f" else "premier"
    head, last = re.fullmatch(r"(.*?)(\w+)", words).groups()
    return head + FR_ORDINALS.get(last, last.removesuffix("e") + "ième")


def ordinal_digits(number: int, language: str, form: str = "") -> str:
    if language == "de":
        return f"{number}."
    if language == "fr":
        return ("1re" if form == "f" else "1er") if number == 1 else f"{number}e"
    return f"{number}{english_suffix(number)}"


def english_suffix(number: int) -> str:
    return "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _nth(number: int, in_words: bool) -> Value:
    def write(language, form, rng):
        return (ordinal_words if in_words else ordinal_digits)(number, language, form)

    return write


def _number_in_words(number: int) -> Value:
    def write(language, form, rng):
        words = number_words(number, language, form == "f")
        if language == "de" and re.match("(hundert|tausend)", words):
            return ways(rng, words, f"ein{words}")
        if language == "en" and number > 100:
            return ways(rng, words, words.replace(" and ", " "))
        return words

    return write


def _few(rng: random.Random) -> Value:
    return _number_in_words(rng.choice([rng.randint(2, 12), rng.randint(13, 30), rng.randint(21, 99)]))


def _many(rng: random.Random) -> Value:
    number = rng.choice([rng.randrange(100, 1000, 50), rng.randint(100, 999), rng.randrange(1000, 9999, 100)])
    return _number_in_words(number + (number % 100 == 1))  # avoids hundertein Seiten, whose form is disputed


def _bare_number(rng: random.Random) -> Value:
    return _number_in_words(rng.choice([rng.randint(0, 100), rng.randint(0, 999), rng.randint(0, 9999)]))


# Keys are the slots of carriers.tsv.
NUMERALS: dict[str, Draw] = {
    "nth": lambda rng: _nth(rng.randint(1, rng.choice([6, 12])), rng.random() < 0.65),
    "nnth": lambda rng: _nth(rng.randint(1, rng.choice([12, 31, 99])), rng.random() < 0.65),
    "n": _few,
    "age": lambda rng: _number_in_words(rng.randint(60, 99)),
    "nn": _many,
    "bare": _bare_number,
}
