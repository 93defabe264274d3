"""Numbers, money, measures and goods, and numbers that stay unchanged, such as telephone numbers."""

import random
import re

from .values import Draw, Value, contract, kept_as, ways, with_later


def digits(number: str, language: str) -> str:
    """Write a number in Python's form ("1250.50") with a language's separators: 1,250.50, 1.250,50 or 1 250,50."""
    whole, _, decimals = number.partition(".")
    thousands, point = {"en": (",", "."), "de": (".", ","), "fr": (" ", ",")}[language]
    whole = f"{int(whole):,}".replace(",", thousands)
    return f"{whole}{point}{decimals}" if decimals else whole


SIGNS = ["$", "€", "£", "CHF"]
CURRENCIES = {  # (singular, plural)
    "$": {"en": ("dollar", "dollars"), "de": ("Dollar", "Dollar"), "fr": ("dollar", "dollars")},
    "€": {"en": ("euro", "euros"), "de": ("Euro", "Euro"), "fr": ("euro", "euros")},
    "£": {"en": ("pound", "pounds"), "de": ("Pfund", "Pfund"), "fr": ("livre", "livres")},
    "CHF": {
        "en": ("Swiss franc", "Swiss francs"),
        "de": ("Schweizer Franken", "Schweizer Franken"),
        "fr": ("franc suisse", "francs suisses"),
    },
}
LARGE = {
    "million": {"en": ("million", "million"), "de": ("Million", "Millionen"), "fr": ("million", "millions")},
    "billion": {"en": ("billion", "billion"), "de": ("Milliarde", "Milliarden"), "fr": ("milliard", "milliards")},
}


def _plural(number: str, language: str) -> bool:
    """Return True for the plural: in French from 2 on, in the other languages for all numbers but 1."""
    return float(number) >= 2 if language == "fr" else float(number) != 1


def _currency(rng: random.Random) -> str:
    return rng.choices(SIGNS, [35, 45, 12, 8])[0]


def money(number: str, currency: str, in_words: bool = False) -> Value:
    """Return an amount: $1,250.50, 1.250,50 $, 1 250,50 $; in words 20 euros, 20 Euro, 20 euros."""

    def write(language, form, rng):
        text = digits(number, language)
        if in_words:
            return f"{text} {CURRENCIES[currency][language][_plural(number, language)]}"
        if language == "en":
            return f"{currency} {text}" if currency == "CHF" else f"{currency}{text}"
        return f"{text} CHF" if currency == "CHF" else ways(rng, f"{text} {currency}", f"{text}{currency}")

    return write


def _money(rng: random.Random) -> Value:
    number = rng.choice(
        [
            str(rng.randint(2, 99)),
            str(rng.randrange(100, 3000, 10)),
            f"{rng.randint(0, 99)}.{rng.randint(1, 99):02}",
            f"{rng.randint(1, 300)}.{rng.choice([50, 99, 90, 95])}",
            f"{rng.randint(1000, 19999)}.{rng.randint(1, 99):02}",
            str(rng.randrange(1000, 250_000, 500)),
        ]
    )
    currency, in_words = _currency(rng), "." not in number and rng.random() < 0.45
    higher = f"{float(number) * 1.25 + 1:.{2 if '.' in number else 0}f}"
    return with_later(money(number, currency, in_words), lambda rng: money(higher, currency, in_words))


PER = {  # the usual spelling of a target, then others
    "hour": {
        "en": ("an hour", "per hour", "/hr", "/h"),
        "de": ("pro Stunde", "die Stunde", "/Std.", "/h"),
        "fr": ("de l'heure", "par heure", "/h", "/heure"),
    },
    "day": {"en": ("a day", "per day", "/day"), "de": ("pro Tag", "am Tag", "/Tag"), "fr": ("par jour", "/jour", "/j")},
    "night": {
        "en": ("a night", "per night", "/night"),
        "de": ("pro Nacht", "die Nacht", "/Nacht"),
        "fr": ("par nuit", "la nuit", "/nuit"),
    },
    "week": {
        "en": ("a week", "per week", "/week", "/wk"),
        "de": ("pro Woche", "die Woche", "/Woche"),
        "fr": ("par semaine", "la semaine", "/semaine"),
    },
    "month": {
        "en": ("a month", "per month", "/month", "/mo"),
        "de": ("im Monat", "pro Monat", "monatlich", "/Monat"),
        "fr": ("par mois", "/mois"),
    },
    "year": {
        "en": ("a year", "per year", "/year", "/yr"),
        "de": ("im Jahr", "pro Jahr", "jährlich", "/Jahr"),
        "fr": ("par an", "/an"),
    },
    "person": {
        "en": ("per person", "/person", "pp", "a head"),
        "de": ("pro Person", "p. P.", "/Person", "pro Kopf"),
        "fr": ("par personne", "/personne", "/pers."),
    },
    "kilo": {
        "en": ("a kilo", "per kilo", "/kg", "/kilo"),
        "de": ("pro Kilo", "das Kilo", "/kg"),
        "fr": ("le kilo", "par kilo", "/kg"),
    },
    "litre": {
        "en": ("a litre", "per litre", "/l", "a liter"),
        "de": ("pro Liter", "der Liter", "/l"),
        "fr": ("le litre", "par litre", "/l"),
    },
}


def rate(number: str, currency: str, unit: str) -> Value:
    """Return a price per unit: $15 an hour, 15 $ pro Stunde, 15 $ de l'heure; in sources also $15/hr, 15 $/Std."""
    amount = money(number, currency)

    def write(language, form, rng):
        per = ways(rng, *PER[unit][language])
        return f"{amount(language, form, rng)}{'' if per.startswith('/') else ' '}{per}"

    return write


def _rate(rng: random.Random) -> Value:
    number = rng.choice([str(rng.randint(2, 99)), f"{rng.randint(1, 60)}.{rng.choice([50, 90, 95, 99])}"])
    large = str(rng.randrange(100, 3000, 50))
    unit = rng.choice([*PER])
    return rate(large if unit in ("month", "year") else number, _currency(rng), unit)


def _large_number(rng: random.Random) -> str:
    return rng.choice([str(rng.randint(1, 20)), str(rng.randint(2, 900)), f"{rng.randint(1, 99)}.{rng.randint(1, 9)}"])


def large_money(number: str, scale: str, currency: str) -> Value:
    """Return a large amount: $3.5 million, 3,5 Millionen Dollar, 3,5 millions de dollars."""

    def write(language, form, rng):
        amount = f"{digits(number, language)} {LARGE[scale][language][_plural(number, language)]}"
        unit = CURRENCIES[currency][language][1]
        if language == "fr":
            return contract(f"{amount} [de]{unit}")
        if language == "de":
            return f"{amount} {unit}"
        sign = f"{currency} " if currency == "CHF" else currency
        return ways(rng, f"{sign}{amount}", f"{amount} {unit}")

    return write


def percent(number: str) -> Value:
    """Return a percentage: 3.5%, 3,5 %, 3,5 %."""

    def write(language, form, rng):
        text = digits(number, language)
        if language == "en":
            return ways(rng, f"{text}%", f"{text} percent", f"{text} per cent")
        word = {"de": "Prozent", "fr": "pour cent"}[language]
        return ways(rng, f"{text} %", f"{text}%", f"{text} {word}")

    return write


def count(number: str, scale: str | None = None) -> Value:
    """Return a count of the form's noun: 3 million people, 3 Millionen Menschen, 3 millions de personnes."""

    def write(language, form, rng):
        text = digits(number, language)
        if scale:
            text += f" {LARGE[scale][language][_plural(number, language)]}"
            return contract(f"{text} [de]{form}") if language == "fr" else f"{text} {form}"
        return f"{text} {form}"

    return write


def _count(rng: random.Random) -> Value:
    if rng.random() < 0.3:
        return count(rng.choice([str(rng.randint(1, 20)), f"{rng.randint(1, 20)}.{rng.randint(1, 9)}"]), "million")
    return count(str(rng.choice([rng.randint(1001, 99_999), rng.randrange(1000, 900_000, 1000)])))


UNIT_WORDS = {  # unit: (singular, plural)
    "kg": {"en": ("kilogram", "kilograms"), "de": ("Kilogramm", "Kilogramm"), "fr": ("kilogramme", "kilogrammes")},
    "g": {"en": ("gram", "grams"), "de": ("Gramm", "Gramm"), "fr": ("gramme", "grammes")},
    "l": {"en": ("liter", "liters"), "de": ("Liter", "Liter"), "fr": ("litre", "litres")},
    "ml": {
        "en": ("milliliter", "milliliters"),
        "de": ("Milliliter", "Milliliter"),
        "fr": ("millilitre", "millilitres"),
    },
    "m": {"en": ("meter", "meters"), "de": ("Meter", "Meter"), "fr": ("mètre", "mètres")},
    "km": {"en": ("kilometer", "kilometers"), "de": ("Kilometer", "Kilometer"), "fr": ("kilomètre", "kilomètres")},
    "cm": {
        "en": ("centimeter", "centimeters"),
        "de": ("Zentimeter", "Zentimeter"),
        "fr": ("centimètre", "centimètres"),
    },
    "spoon": {"en": ("tablespoon", "tablespoons"), "de": ("Esslöffel", "Esslöffel")}
    | {"fr": ("cuillère à soupe", "cuillères à soupe")},
    "teaspoon": {"en": ("teaspoon", "teaspoons"), "de": ("Teelöffel", "Teelöffel")}
    | {"fr": ("cuillère à café", "cuillères à café")},
    "cup": {"en": ("cup", "cups"), "de": ("Tasse", "Tassen"), "fr": ("tasse", "tasses")},
    "kilo": {"en": ("kilo", "kilos"), "de": ("Kilo", "Kilo"), "fr": ("kilo", "kilos")},
}
SHORT_SPOONS = {  # in sources
    "spoon": {"en": ("tbsp", "tbsp.", "tbsps"), "de": ("EL", "Essl."), "fr": ("c. à s.", "c. à soupe", "CàS")},
    "teaspoon": {"en": ("tsp", "tsp.", "tsps"), "de": ("TL", "Teel."), "fr": ("c. à c.", "c. à café", "CàC")},
}
FRENCH_UNITS = {"kB": "ko", "MB": "Mo", "GB": "Go", "TB": "To"}


def measure(number: str, unit: str, in_words: bool = False) -> Value:
    """Return a measure: 2.5 kg, 2,5 kg, 2,5 kg, or 2.5 kilograms in words. Bytes are octets in French: 5 Mo."""
    in_words = in_words and unit in UNIT_WORDS or unit in ("spoon", "teaspoon", "cup", "kilo")

    def write(language, form, rng):
        text = digits(number, language)
        if in_words:
            word = UNIT_WORDS[unit][language][_plural(number, language)]
            if language == "en" and re.search("(lit|met)er", word):
                word = ways(rng, word, re.sub("(lit|met)er", r"\1re", word))
            if short := SHORT_SPOONS.get(unit):
                word = ways(rng, word, *short[language])
            return f"{text} {word}"
        sign = FRENCH_UNITS.get(unit, unit) if language == "fr" else unit
        return ways(rng, f"{text} {sign}", f"{text}{sign}")

    return write


def _measure(*choices: tuple[list[str] | range, str], in_words: float = 0.3) -> Draw:
    def draw(rng):
        numbers, unit = rng.choice(choices)
        return measure(str(rng.choice(numbers)), unit, rng.random() < in_words)

    return draw


def _decimals(low: int, high: int) -> list[str]:
    return [f"{whole}.{tenth}" for whole in range(low, high) for tenth in range(1, 10)]


FOODS = [  # after g and kg
    {"en": en, "de": de, "fr": fr}
    for en, de, fr in (
        row.split("=")
        for row in (
            "flour=Mehl=farine sugar=Zucker=sucre butter=Butter=beurre rice=Reis=riz "
            "potatoes=Kartoffeln=pommes+de+terre apples=Äpfel=pommes cheese=Käse=fromage "
            "onions=Zwiebeln=oignons tomatoes=Tomaten=tomates "
            "carrots=Karotten=carottes mushrooms=Pilze=champignons meat=Fleisch=viande ham=Schinken=jambon "
            "chocolate=Schokolade=chocolat pasta=Nudeln=pâtes salt=Salz=sel coffee=Kaffee=café bread=Brot=pain "
            "cherries=Kirschen=cerises almonds=Mandeln=amandes beans=Bohnen=haricots spinach=Spinat=épinards "
            "strawberries=Erdbeeren=fraises lentils=Linsen=lentilles honey=Honig=miel fish=Fisch=poisson "
            "walnuts=Walnüsse=noix oranges=Orangen=oranges shrimp=Garnelen=crevettes raisins=Rosinen=raisins+secs "
            "grapes=Weintrauben=raisin asparagus=Spargel=asperges garlic=Knoblauch=ail pears=Birnen=poires"
        ).split()
    )
]
POWDERS = [food for food in FOODS if food["en"] in ("flour", "sugar", "rice", "lentils", "almonds", "raisins")]
SPOONFULS = [food for food in FOODS if food["en"] in ("flour", "sugar", "honey", "salt", "butter", "coffee")]
LIQUIDS = [
    {"en": en, "de": de, "fr": fr}
    for en, de, fr in (
        row.split("=")
        for row in (
            "water=Wasser=eau milk=Milch=lait oil=Öl=huile olive+oil=Olivenöl=huile+d'olive cream=Sahne=crème "
            "orange+juice=Orangensaft=jus+d'orange apple+juice=Apfelsaft=jus+de+pomme wine=Wein=vin tea=Tee=thé "
            "vinegar=Essig=vinaigre soup=Suppe=soupe coffee=Kaffee=café"
        ).split()
    )
]


def goods(amount: Value, good: dict[str, str]) -> Value:
    """Return an amount of a good: 200 g of flour, 200 g Mehl, 200 g de farine."""

    def write(language, form, rng):
        name, how_much = good[language].replace("+", " "), amount(language, "", rng)
        if language == "fr":
            return contract(f"{how_much} [de]{name}")
        return f"{how_much} of {name}" if language == "en" else f"{how_much} {name}"

    return write


def _food(rng: random.Random) -> Value:
    kind = rng.random()
    if kind < 0.65:
        amount = _measure(
            (range(50, 1000, 50), "g"),
            (range(20, 600, 5), "g"),
            (["1", "2", "3", "1.5", "2.5"], "kg"),
            (["1", "2", "3", "5"], "kilo"),
        )(rng)
        return goods(amount, rng.choice(FOODS))
    if kind < 0.9:
        amount = measure(str(rng.randint(1, 6)), rng.choice(["spoon", "teaspoon"]))
        return goods(amount, rng.choice([*SPOONFULS, *LIQUIDS[2:4]]))
    return goods(measure(str(rng.randint(1, 4)), "cup"), rng.choice(POWDERS))


def _liquid(rng: random.Random) -> Value:
    amount = _measure((range(50, 800, 25), "ml"), (["1", "2", "3", "1.5", "0.5", "2.5"], "l"))(rng)
    return goods(amount, rng.choice(LIQUIDS))


def _number(rng: random.Random) -> Value:
    number = rng.choice(
        [
            f"{rng.randint(0, 99)}.{rng.randint(1, 9)}",
            f"{rng.randint(0, 9)}.{rng.randint(1, 999):03}",
            f"{rng.randint(1000, 99_999)}.{rng.randint(1, 99):02}",
            str(rng.randint(1000, 99_999)),
            str(rng.randint(100_000, 9_999_999)),
        ]
    )
    higher = f"{float(number) * rng.uniform(1.1, 3) + 0.1:.{len(number.partition('.')[2])}f}"

    def value(number):
        return lambda language, form, rng: digits(number, language)

    return with_later(value(number), lambda rng: value(higher))


# Values that are the same in all three languages.


def _kept(*patterns: str) -> Draw:
    """Each 0 of a pattern is a digit, each 1 one that is not zero, each A a capital."""

    def draw(rng):
        numbers = {"0": "0123456789", "1": "123456789", "A": "ABCDEFGHKLMNPRSTUVWXYZ"}
        text = "".join(rng.choice(numbers[c]) if c in numbers else c for c in rng.choice(patterns))
        return kept_as(text)

    return draw


def _interval(rng: random.Random) -> Value:
    low = rng.randint(0, 90)
    text = rng.choice(["[{},{}]", "[{}, {}]", "({}, {})"]).format(low, low + rng.randint(1, 60))
    return kept_as(text)


def _range(rng: random.Random) -> Value:
    low = rng.randint(1, 300)
    return kept_as(f"{low}-{low + rng.randint(1, 40)}")


def _score(rng: random.Random) -> Value:
    low = rng.randint(0, 4)
    high = low + rng.randint(1, 3)

    def write(language, form, rng):
        if language == "en":
            return ways(rng, f"{high}-{low}", f"{high} to {low}")
        return f"{high}:{low}" if language == "de" else ways(rng, f"{high} à {low}", f"{high}-{low}")

    return write


# Keys are the slots of carriers.tsv.
QUANTITIES: dict[str, Draw] = {
    "money": _money,
    "bigmoney": lambda rng: large_money(_large_number(rng), rng.choice([*LARGE]), _currency(rng)),
    "rate": _rate,
    "percent": lambda rng: percent(rng.choice([str(rng.randint(2, 95)), f"{rng.randint(0, 30)}.{rng.randint(1, 9)}"])),
    "count": _count,
    "food": _food,
    "liquid": _liquid,
    "weight": _measure((range(2, 40), "kg"), (_decimals(1, 25), "kg"), (range(100, 950, 50), "g")),
    "distance": _measure((range(2, 30), "km"), (_decimals(1, 12), "km"), (range(200, 950, 50), "m"), in_words=0.5),
    "length": _measure((range(15, 300, 5), "cm"), (_decimals(1, 6), "m"), (range(2, 12), "m"), in_words=0.4),
    "temperature": _measure((range(-12, 38), "°C"), (_decimals(5, 32), "°C")),
    "oven": _measure((range(140, 240, 10), "°C")),
    "speed": _measure((range(20, 150, 10), "km/h")),
    "storage": _measure(
        (range(2, 900), "kB"),
        (range(2, 900), "MB"),
        (range(2, 600), "GB"),
        (_decimals(1, 9), "GB"),
        (_decimals(1, 9), "MB"),
        (range(1, 9), "TB"),
    ),
    "number": _number,
    "phone": _kept(
        "+11 10 10000000",
        "+11 100 1000000",
        "011 10 00 00 00",
        "0100/100000",
        "100-100-0000",
        "(100) 100-0000",
        "01 10 00 00 00",
        "0100 1000000",
        "+11-10-1000000",
    ),
    "version": _kept("1.0.0", "1.0.10", "1.10.0", "10.0.1", "1.0.0-1"),
    "interval": _interval,
    "range": _range,
    "code": _kept("100000", "A-10000", "AA-100000", "1000-000-0", "A100000", "10000/1"),
    "flight": _kept("AA 100", "AA1000", "AA 1000", "AA100"),
    "room": _kept("10", "100", "1000"),
    "score": _score,
}
