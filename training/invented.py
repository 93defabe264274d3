"""Invented names, addresses, numbers, placeholders and other strings that a translation keeps.

Each kind has a list of patterns with these fields; doubled braces are literal braces.

| field | filled with |
|---|---|
| `{word}`, `{Word}`, `{WORD}` | an invented word, which no model can know |
| `{first}`, `{last}`, `{town}` | names of people and a town of one of many countries, from Faker |
| `{n}`, `{nn}`, `{nnnnn}` | a number of one to four, two, or five to eight digits |
| `{domain}`, `{unit}` | a domain name, a unit |
"""

import random
from functools import cache
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from faker import Faker

PATTERNS = {
    "name": [
        *("{first}", "{first}", "{last}", "{last}", "{first} {last}", "{first} {last}", "{first} {last}", "{town}"),
        *("{first} {last}-{last}", "{last} & {last}", "{last}-{last}", "{town}", "{last} {Word}", "{Word}", "{Word}"),
        *("{Word} {Word}", "{Word}{Word}", "{Word} {n}", "{Word} & {last}"),
    ],
    "url": [
        *("https://{domain}", "http://{domain}/", "www.{domain}", "https://www.{domain}/{word}", "{domain}/{word}"),
        *("https://{domain}/{word}/{word}-{word}.html", "https://{domain}:{n}/{word}", "http://localhost:{n}/{word}"),
        *(
            "https://{domain}/?id={n}",
            "https://{domain}/{word}?q={word}&page={n}",
            "https://docs.{domain}/{word}#{word}",
        ),
        *("https://{domain}/{word}/{n}/{nn}", "ftp://{domain}/{word}.zip", "https://{domain}/{word}_{word}?{word}={n}"),
    ],
    "email": [
        *("{word}@{domain}", "{word}.{word}@{domain}", "{word}_{nn}@{domain}", "{word}+{word}@{domain}"),
        *("{word}-{word}@{domain}", "{Word}.{Word}@{domain}", "mailto:{word}@{domain}"),
    ],
    "number": [
        *("{n}", "{n}", "{nnnnn}", "{n} {unit}", "{n} {unit}", "{n}{unit}", "{nn}:{nn}", "v{n}.{nn}.{nn}", "#{nnnnn}"),
        *("{nn}.{nn}.{nn}.{nn}", "{nn}.{nn}.{n}", "+{nn} {n} {nnnnn}", "0{nn} {nn} {nn} {nn}", "{WORD}-{nnnnn}"),
        *(
            "{nn}-{nn}",
            "{nn}/{nn}",
            "{n}×{n}",
            "({n})",
            "{nn} %",
            "{nn}%",
            "±{nn}",
            "{n}-{nnnnn}-{n}",
            "{nnnnn} {word}",
        ),
    ],
    "placeholder": [
        *(
            "{{{word}}}",
            "{{{n}}}",
            "{{name}}",
            "{{0}}",
            "{{1}}",
            "{{{{{word}}}}}",
            "{{{{count}}}}",
            "${{{word}}}",
            "${WORD}",
        ),
        *(
            ":{word}",
            "<{word}>",
            "[{WORD}]",
            "[{WORD}_{WORD}]",
            "@{word}",
            "%{word}%",
            "{{{word}.{word}}}",
            "__{WORD}__",
        ),
        *("%s", "%s", "%d", "%i", "%.2f", "%1$s", "%2$d", "%({word})s", "%%", "%@", "%1", "$1", "&nbsp;", "\\n"),
    ],
    "code": [
        *("{word}.{word}()", "{word}_{word}", "{word}{Word}", "--{word}-{word}", "-{word}", "/{word}/{word}.txt"),
        *(
            "C:\\{Word}\\{word}.exe",
            "{word}.pdf",
            "{word}.csv",
            "{word}.py",
            "{Word}.docx",
            "`{word}`",
            "`{word} {word}`",
        ),
        *("{WORD}_{WORD}", "{word}::{Word}", "~/{word}/{word}", "{word}={n}", "#{word}", "Ctrl+{WORD}", "F{nn}"),
    ],
}
# Names, numbers and placeholders are the most common.
KINDS = ["name", "name", "number", "number", "placeholder", "placeholder", "url", "email", "code"]

SYLLABLES = [c + v for c in (*"bdfgklmnprstvwz", "br", "ch", "kr", "sch", "st", "th", "tr") for v in "aeiou"]
ENDINGS = ["", "", "", "n", "r", "s", "l", "ck", "x", "ng"]
DOMAINS = ["com", "com", "org", "net", "de", "fr", "eu", "io", "co.uk", "ch", "info", "ca", "at"]
# Faker's countries whose names are in Latin letters and whose towns look real.
COUNTRIES = (
    "cs_CZ da_DK de_AT de_DE en_IN es_ES fi_FI hr_HR hu_HU id_ID it_IT nl_NL no_NO pl_PL pt_PT ro_RO sk_SK sl_SI sv_SE"
).split()
# For these countries, Faker composes towns from parts of English names; only names of people are used.
NAMES_ALONE = "en_GB en_NG en_US fr_CH fr_FR ga_IE lt_LT lv_LV pt_BR tr_TR yo_NG zu_ZA".split()
UNITS = "kg g km m cm mm km/h l ml °C °F % GB MB TB kW V Hz € $ £ h min mg m² kB".split()


class _Parts(dict):
    """Fills in the fields of a pattern, differently at each use."""

    def __init__(self, rng: random.Random):
        self.rng, self.country = rng, rng.choice(COUNTRIES + NAMES_ALONE)

    def __missing__(self, field: str) -> str:
        rng = self.rng
        if field == "town":
            return people(rng.choice(COUNTRIES), rng.getrandbits(32)).city()
        if field in ("first", "last"):
            person = people(self.country, rng.getrandbits(32))
            return person.first_name() if field == "first" else person.last_name()
        if field.lower() == "word":
            letters = "".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) + rng.choice(ENDINGS)
            return {"word": letters, "Word": letters.capitalize(), "WORD": letters.upper()}[field]
        if field == "domain":
            return f"{rng.choice(['', '', 'shop.', 'api.'])}{self['word']}.{rng.choice(DOMAINS)}"
        if field == "unit":
            return rng.choice(UNITS)
        digits = {"n": rng.randint(1, 4), "nn": 2, "nnnnn": rng.randint(5, 8)}[field]
        return str(rng.randint(10 ** (digits - 1), 10**digits - 1))


def people(country: str, seed: int) -> "Faker":
    """Return a generator of a country's names, reset by the seed: the same seed gives the same names."""
    faker = _faker(country)
    faker.seed_instance(seed)
    return faker


@cache
def _faker(country: str) -> "Faker":
    from faker import Faker  # a slow import that training without names does not need

    faker = Faker(country)
    for provider in faker.factories[0].get_providers():
        if isinstance(getattr(provider, "cities", None), list):
            # Faker takes Italy's from a set, whose order differs between processes.
            provider.cities = sorted(provider.cities)
    return faker


def invent(rng: random.Random, kind: str | None = None) -> str:
    """Return a string of one of the kinds of `PATTERNS`, by default of a random kind."""
    return rng.choice(PATTERNS[kind or rng.choice(KINDS)]).format_map(_Parts(rng))
