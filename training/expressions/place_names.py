"""Names of places with their articles and prepositions, and names of people."""

import random
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from ..invented import COUNTRIES, NAMES_ALONE, people
from .values import LANGUAGES, Value, contract, elides, kept_as


TABLE = Path(__file__).with_name("places.tsv")  # countries, regions, rivers and mountains

# English names of cities that Europeans often write about: half of the drawn cities are from this set.
WELL_KNOWN = set(
    "Munich Vienna Warsaw Cologne Nuremberg Hanover Geneva Brussels Antwerp Ghent Bruges Copenhagen Prague Milan Rome "
    "Naples Florence Venice Turin Genoa Athens Moscow Lisbon Seville Nice Strasbourg London Kyiv Bucharest Belgrade "
    "Zürich Zurich Basel Bern Lucerne Gdańsk Kraków Wrocław Poznań Cairo Algiers Beirut Damascus Baghdad Tehran "
    "Jerusalem Havana Beijing Seoul Tokyo Singapore Tunis Dunkirk Dresden Hamburg Frankfurt Leipzig Stuttgart Berlin "
    "Paris Lyon Marseille Bordeaux Toulouse Lille Nantes Madrid Barcelona Valencia Zaragoza Amsterdam Rotterdam Oslo "
    "Stockholm Gothenburg Helsinki Tallinn Riga Vilnius Budapest Sofia Bratislava Ljubljana Zagreb Dublin Edinburgh "
    "Manchester Liverpool Chicago Boston Toronto Montréal Montreal Sydney Melbourne Istanbul Ankara Dubai Marrakesh "
    "Casablanca Mecca Salzburg Innsbruck Graz Linz Düsseldorf Dortmund Bremen Mainz Trier Aachen Freiburg Bologna "
    "Palermo Porto Reykjavik Brunswick Liège Padua Verona Parma Siena Pisa".split()
    + ["New York", "Mexico City", "The Hague", "Saint Petersburg", "New Delhi", "Cape Town", "Tel Aviv", "Los Angeles"]
)
# The table mixes cities with islands and stations, which take other prepositions, and with names of offices.
NOT_A_CITY = re.compile(
    r"\b(Islands?|Station|Location|City|Quarter|Vatican|Barbados|Cayman|Canaries|Faroes|Sakhalin|Kamchatka|Galápagos|"
    r"St\. (Vincent|Kitts|Thomas)|South Georgia|Mahé|Thule|Efate|Wallis|Futuna|Pohnpei|Chuuk|Noronha|Guadeloupe|"
    r"Madeira|Azores|Bermuda|Mauritius|Reunion|Base|Luxembourg)\b|[&()/,]"
)
# Replace unusual names in the table. Keys are English; values are German and French.
USUAL_NAMES = {
    "London": {"de": "London", "fr": "Londres"},
    "New York": {"de": "New York", "fr": "New York"},
    "Frankfurt": {"de": "Frankfurt", "fr": "Francfort"},
    "Tel Aviv": {"de": "Tel Aviv", "fr": "Tel-Aviv"},
    "St. Petersburg": {"de": "Sankt Petersburg", "fr": "Saint-Pétersbourg"},
    "Santiago": {"de": "Santiago", "fr": "Santiago"},
    "San José": {"de": "San José", "fr": "San José"},
    "Jerusalem": {"de": "Jerusalem", "fr": "Jérusalem"},
}
# Left out: on their own, these may be other words or names.
AMBIGUOUS = {"world", "Main", "Inn", "Don", "Po", "Ural", "Galicia"}
CITIES_WITH_CITY = ("Mexico City", "Kuwait City", "Panama City", "Guatemala City", "Ho Chi Minh City", "Quebec City")


class Places:
    """Names in two languages: the cities of a table, and the countries, regions, rivers and mountains of places.tsv.

    Its public methods have the names of the slots in carriers.tsv, and draw a value for them.
    """

    def __init__(self, source: str, target: str, table: Iterable[Sequence[str]]):
        self._languages = source, target
        names: dict[str, tuple[str, str]] = {}
        cities: dict[str, tuple[str, str]] = {}
        # Each name gets one translation: Jordan is the country, not the river. All rivers of the table are left out,
        # since some are called "Red" or "Peace".
        rows = [row for row in self._completed(table) if not row[2].startswith("river")]
        for *pair, kind in sorted(rows, key=lambda row: not row[2].startswith("country")):
            pair = tuple(pair)
            if not (AMBIGUOUS & set(pair) or re.search(r"Pseudo|Unknown|\bR\.|É\.-U\.", " ".join(pair))):
                names.setdefault(pair[0], pair)
            if kind.startswith("city") and self._is_city(pair):
                cities.setdefault(pair[0], pair)
        self.names = list(names.values())
        self.cities = list(cities.values())
        self._known = [pair for pair in self.cities if WELL_KNOWN & set(pair)]
        self._differing = [pair for pair in self.cities if pair[0] != pair[1]]

    def _completed(self, table: Iterable[Sequence[str]]) -> list[Sequence[str]]:
        """Return the table with unusual names replaced; an empty table stays empty."""
        table, number = list(table), int(self._languages[0] != "en")
        usual = [
            tuple({"en": name, **names}[language] for language in self._languages) + ("city",)
            for name, names in USUAL_NAMES.items()
        ]
        return table and usual + [row for row in table if row[number] not in USUAL_NAMES]

    @staticmethod
    def _is_city(pair: tuple[str, str]) -> bool:
        if any(NOT_A_CITY.search(name) and name not in CITIES_WITH_CITY for name in pair):
            return False
        # Reject a name that contains its translation, such as San Francisco de Quito: it says more than that.
        shorter, longer = sorted(pair, key=len)
        return shorter == longer or not re.search(rf"\b{re.escape(shorter)}\b", longer)

    def city(self, rng: random.Random) -> Value:
        draw = rng.random()
        cities = self._known if draw < 0.5 else self._differing if draw < 0.8 else self.cities
        return self._name_value(rng.choice(cities or self.cities))

    def name(self, rng: random.Random) -> Value:
        return self._name_value(rng.choice(self.names))

    def _name_value(self, pair: tuple[str, str]) -> Value:
        names = dict(zip(self._languages, pair, strict=True))
        return lambda language, form, rng: names.get(language, pair[0])

    def person(self, rng: random.Random) -> Value:
        person = people(rng.choice(COUNTRIES + NAMES_ALONE), rng.getrandbits(32))
        name = person.first_name()
        if rng.random() < 0.4:
            name += f" {person.last_name()}"
        return kept_as(name)

    def country(self, rng: random.Random) -> Value:
        return with_article(rng.choice(_named_places()["country"]))

    def nature(self, rng: random.Random) -> Value:
        return with_article(rng.choice(_named_places()["nature"]))


@cache
def _named_places() -> dict[str, list[dict[str, str]]]:
    kinds: dict[str, list[dict[str, str]]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        kind, *names = line.split("\t")
        kinds.setdefault(kind, []).append(dict(zip(LANGUAGES, names, strict=True)) | {"kind": kind})
    return kinds


def with_article(place: dict[str, str]) -> Value:
    """Return the value of a row of places.tsv, which can be written in these forms:

    - empty: the nominative;
    - acc: the German accusative;
    - in, to, from, away, near: with the German or French preposition: im Iran, aus Polen, vom Rhein, zum Rhein;
    - lies: with a verb: is the Rhine, liegt der Rhein.
    """

    def write(language, form, rng):
        if language == "en":
            name = place["en"]
            plural = place["kind"] == "nature" and name.endswith("s") and name != "the Ganges"
            return f"{'are' if plural else 'is'} {name}" if form == "lies" else name
        return _german_place(place["de"], form) if language == "de" else _french_place(place["fr"], form)

    return write


def _german_place(text: str, form: str) -> str:
    text, _, number = text.partition(" (")
    is_plural = bool(number)
    article, _, name = text.partition(" ")
    if article not in ("der", "die", "das"):
        return {"in": "in ", "to": "nach ", "from": "aus ", "lies": "liegt "}.get(form, "") + text
    if form == "lies":
        return f"{'liegen' if is_plural else 'liegt'} {text}"
    if form in ("", "acc"):
        return f"den {name}" if form and article == "der" else text
    if form == "to":
        return f"{'in den' if article == 'der' else 'ins' if article == 'das' else 'in die'} {name}"
    dative = "den" if is_plural else "der" if article == "die" else "dem"
    if is_plural and name.endswith("e"):
        name += "n"
    if article == "das" and " " in name:  # das Schwarze Meer
        name = name.replace(" ", "n ", 1)
    phrase = {"in": f"in {dative}", "from": f"aus {dative}", "away": f"von {dative}", "near": f"zu {dative}"}[form]
    for long, short in (("in dem", "im"), ("von dem", "vom"), ("zu dem", "zum"), ("zu der", "zur")):
        phrase = short if phrase == long else phrase
    return f"{phrase} {name}"


def _french_place(text: str, form: str) -> str:
    text, _, gender = text.partition(" (")
    if form == "lies":
        return f"{'se trouvent' if text.startswith('les ') else 'se trouve'} {text}"
    if form not in ("in", "to", "from"):
        return text
    article, name = re.fullmatch(r"(la |le |les |l'|)(.*)", text).groups()
    if article == "les ":
        return f"{'des' if form == 'from' else 'aux'} {name}"
    if article == "le ":
        return f"{'du' if form == 'from' else 'au'} {name}"
    if form == "from":
        return contract(f"[de]{name}")
    return f"en {name}" if article or elides(name) else f"à {name}"
