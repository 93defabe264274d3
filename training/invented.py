"""Names, addresses, numbers, placeholders and other things that a translation keeps.

Each kind is a list of patterns. `{word}`, `{Word}` and `{WORD}` are invented words, so that none is known; `{first}`
and `{last}` names of people of one of many countries and `{town}` a town there (by Faker); `{n}` a number of one to
four digits, `{nn}` one of two, `{nnnnn}` one of five to eight, `{domain}` and `{unit}` what they say. Doubled braces
are braces.
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
# Names, numbers and placeholders are met most often.
KINDS = ["name", "name", "number", "number", "placeholder", "placeholder", "url", "email", "code"]

SYLLABLES = [c + v for c in (*"bdfgklmnprstvwz", "br", "ch", "kr", "sch", "st", "th", "tr") for v in "aeiou"]
ENDINGS = ["", "", "", "n", "r", "s", "l", "ck", "x", "ng"]
DOMAINS = ["com", "com", "org", "net", "de", "fr", "eu", "io", "co.uk", "ch", "info", "ca", "at"]
# Written in Latin letters, with towns that look like towns there.
COUNTRIES = (
    "cs_CZ da_DK de_AT de_DE en_IN es_ES fi_FI hr_HR hu_HU id_ID it_IT nl_NL no_NO pl_PL pt_PT ro_RO sk_SK sl_SI sv_SE"
).split()
# Whose towns Faker puts together from parts of English names.
NAMES_ALONE = "en_GB en_NG en_US fr_CH fr_FR ga_IE lt_LT lv_LV pt_BR tr_TR yo_NG zu_ZA".split()
UNITS = "kg g km m cm mm km/h l ml °C °F % GB MB TB kW V Hz € $ £ h min mg m² kB".split()


class _Parts(dict):
    """What the fields of a pattern stand for, another each time."""

    def __init__(self, rng: random.Random):
        self.rng, self.country = rng, rng.choice(COUNTRIES + NAMES_ALONE)

    def __missing__(self, field: str) -> str:
        rng = self.rng
        if field == "town":
            return people(rng.choice(COUNTRIES), rng.getrandbits(32)).city()
        if field in ("first", "last"):
            someone = people(self.country, rng.getrandbits(32))
            return someone.first_name() if field == "first" else someone.last_name()
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
    """Who gives names of a country; the same seed gives the same."""
    faker = _faker(country)
    faker.seed_instance(seed)
    return faker


@cache
def _faker(country: str) -> "Faker":
    from faker import Faker  # whoever trains without names need not wait for this import

    return Faker(country)


def invent(rng: random.Random, kind: str | None = None) -> str:
    """Something of a kind of `PATTERNS`, or of any kind."""
    return rng.choice(PATTERNS[kind or rng.choice(KINDS)]).format_map(_Parts(rng))
