"""Words that sources abbreviate ("approx." for "about"), and titles before surnames. Targets use the usual form."""

import random

from ..invented import COUNTRIES, NAMES_ALONE, people
from .values import Draw, Value, ways


# FORM of the slot {short:FORM}: for each language, the usual words, then the variants that only sources use.
SHORT = {
    "about": {
        "en": ("about", "approx.", "approximately", "approx"),
        "de": ("etwa", "ca.", "circa", "ungefähr"),
        "fr": ("environ", "env."),
    },
    "example": {
        "en": ("for example", "e.g."),
        "de": ("zum Beispiel", "z. B.", "z.B."),
        "fr": ("par exemple", "p. ex."),
    },
    "that": {"en": ("that is", "i.e."), "de": ("das heißt", "d. h.", "d.h."), "fr": ("c'est-à-dire", "c.-à-d.")},
    "others": {
        "en": ("and so on", "etc."),
        "de": ("und so weiter", "usw.", "etc."),
        "fr": ("et ainsi de suite", "etc."),
    },
    "soon": {
        "en": ("as soon as possible", "asap", "ASAP"),
        "de": ("so bald wie möglich", "asap"),
        "fr": ("dès que possible", "asap"),
    },
    "please": {"en": ("please", "pls"), "de": ("bitte",), "fr": ("s'il vous plaît", "svp", "SVP", "s.v.p.")},
    "appointment": {"en": ("an appointment", "an appt"), "de": ("einen Termin",), "fr": ("rendez-vous", "RDV", "rdv")},
    "perhaps": {"en": ("possibly",), "de": ("eventuell", "evtl."), "fr": ("éventuellement",)},
    "needed": {"en": ("if necessary",), "de": ("gegebenenfalls", "ggf."), "fr": ("si nécessaire",)},
    "above": {"en": ("especially", "esp."), "de": ("vor allem", "v. a.", "v.a."), "fr": ("surtout",)},
    "usually": {"en": ("usually",), "de": ("in der Regel", "i. d. R.", "idR"), "fr": ("en général",)},
    "among": {"en": ("among other things",), "de": ("unter anderem", "u. a.", "u.a."), "fr": ("entre autres",)},
    "without": {"en": ("without", "w/o"), "de": ("ohne",), "fr": ("sans",)},
    "station": {"en": ("main station",), "de": ("Hauptbahnhof", "Hbf", "Hbf."), "fr": ("gare principale",)},
    "least": {"en": ("at least", "min."), "de": ("mindestens", "mind."), "fr": ("au moins", "min.")},
    "most": {"en": ("at most", "max."), "de": ("höchstens", "max."), "fr": ("au maximum", "max.")},
    "plusvat": {
        "en": ("plus VAT", "excl. VAT", "+ VAT"),
        "de": ("zuzüglich MwSt.", "zzgl. MwSt.", "plus MwSt.", "exkl. MwSt."),
        "fr": ("hors TVA", "HT", "hors taxes"),
    },
    "withvat": {
        "en": ("including VAT", "incl. VAT", "VAT included"),
        "de": ("inklusive MwSt.", "inkl. MwSt.", "einschl. MwSt."),
        "fr": ("TVA comprise", "TTC", "toutes taxes comprises"),
    },
    "heating": {
        "en": ("including heating", "incl. heating"),
        "de": ("einschließlich Heizung", "inkl. Heizung"),
        "fr": ("chauffage compris", "chauffage inclus"),
    },
    "page": {"en": ("page", "p."), "de": ("Seite", "S."), "fr": ("page", "p.")},
    "chapter": {"en": ("chapter", "ch.", "chap."), "de": ("Kapitel", "Kap."), "fr": ("chapitre", "chap.")},
    "number": {"en": ("number", "No.", "no."), "de": ("Nummer", "Nr."), "fr": ("numéro", "n°", "no")},
    "flat": {"en": ("apartment", "apt.", "Apt."), "de": ("Wohnung", "Whg."), "fr": ("appartement", "appt", "apt.")},
    "floor": {"en": ("floor",), "de": ("Stock", "OG"), "fr": ("étage",)},
    "pounds": {"en": ("pounds", "lbs", "lb", "lbs."), "de": ("Pfund", "Pfd."), "fr": ("livres", "lb")},
    "feet": {"en": ("feet", "ft", "ft."), "de": ("Fuß",), "fr": ("pieds",)},
    "people": {"en": ("people", "ppl"), "de": ("Personen", "Pers."), "fr": ("personnes", "pers.")},
    "pieces": {"en": ("pieces", "pcs", "pcs."), "de": ("Stück", "Stk.", "St."), "fr": ("pièces", "pces", "pcs")},
    "pack": {"en": ("packet", "pkt"), "de": ("Päckchen", "Pck.", "Pkg."), "fr": ("sachet",)},
    "pinch": {"en": ("pinch",), "de": ("Prise",), "fr": ("pincée",)},
    "info": {
        "en": ("for your information", "FYI", "fyi"),
        "de": ("zu Ihrer Information",),
        "fr": ("pour information",),
    },
    "seconds": {"en": ("seconds", "sec", "secs"), "de": ("Sekunden", "Sek."), "fr": ("secondes", "s", "sec")},
    "years": {"en": ("years", "yrs"), "de": ("Jahre", "J."), "fr": ("ans",)},
    "christ": {
        "en": ("BC", "B.C."),
        "de": ("vor Christus", "v. Chr.", "v.Chr."),
        "fr": ("avant Jésus-Christ", "av. J.-C."),
    },
}


def _short(language: str, form: str, rng: random.Random | None) -> str:
    usual, *short = SHORT[form][language]
    return ways(rng, usual, *short)


def titled(surname: str, is_man: bool) -> Value:
    """Return a title and a surname: Mr. Smith, Herr Smith, M. Smith.

    The form "acc" is the German accusative and dative; "dear" begins a letter: Dear Mr. Smith.
    """

    def write(language, form, rng):
        if language == "en":
            titles = ("Mr.", "Mr") if is_man else ("Mrs.", "Mrs", "Ms.", "Ms")
            return ("Dear " if form == "dear" else "") + f"{ways(rng, *titles)} {surname}"
        if language == "de":
            if form == "dear":
                greetings = ("Sehr geehrter", "Lieber") if is_man else ("Sehr geehrte", "Liebe")
                return f"{ways(rng, *greetings)} {'Herr' if is_man else 'Frau'} {surname}"
            return f"{('Herrn' if form == 'acc' else 'Herr') if is_man else 'Frau'} {surname}"
        short, full = ("M.", "Monsieur") if is_man else ("Mme", "Madame")
        if form == "dear":
            dear = "Cher" if is_man else "Chère"
            return ways(rng, f"{dear} {full} {surname}", f"{full} {surname}", f"{dear} {short} {surname}")
        return f"{ways(rng, short, full, *(['Mr'] if is_man else ['Mme.']))} {surname}"

    return write


def _titled(rng: random.Random) -> Value:
    person = people(rng.choice(COUNTRIES + NAMES_ALONE), rng.getrandbits(32))
    return titled(person.last_name(), rng.random() < 0.5)


# Keys are the slots of carriers.tsv.
ABBREVIATIONS: dict[str, Draw] = {"short": lambda rng: _short, "titled": _titled}
