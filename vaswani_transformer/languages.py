"""Language codes: ISO 639-1 and 639-3, codes with a script or a region, and the names of OPUS-MT's models."""

import re
from collections.abc import Iterable, Sequence


# ISO 639-1 and 639-3. A macrolanguage such as Chinese has the codes that OPUS-MT uses for its main language, too.
CODES: dict[str, tuple[str, ...]] = {
    line.split()[0]: tuple(line.split()[1:])
    for line in """
    aa aar|ab abk|ae ave|af afr|ak aka|am amh|an arg|ar ara arb|as asm|av ava|ay aym|az aze azj|ba bak|be bel|bg bul
    bi bis|bm bam|bn ben|bo bod|br bre|bs bos|ca cat|ce che|ch cha|co cos|cr cre|cs ces|cu chu|cv chv|cy cym|da dan
    de deu|dv div|dz dzo|ee ewe|el ell|en eng|eo epo|es spa|et est ekk|eu eus|fa fas pes|ff ful|fi fin|fj fij|fo fao
    fr fra|fy fry|ga gle|gd gla|gl glg|gn grn|gu guj|gv glv|ha hau|he heb|hi hin|ho hmo|hr hrv|ht hat|hu hun|hy hye
    hz her|ia ina|id ind|ie ile|ig ibo|ii iii|ik ipk|io ido|is isl|it ita|iu iku|ja jpn|jv jav|ka kat|kg kon|ki kik
    kj kua|kk kaz|kl kal|km khm|kn kan|ko kor|kr kau|ks kas|ku kur kmr|kv kom|kw cor|ky kir|la lat|lb ltz|lg lug
    li lim|ln lin|lo lao|lt lit|lu lub|lv lav lvs|mg mlg plt|mh mah|mi mri|mk mkd|ml mal|mn mon khk|mr mar|ms msa zsm
    mt mlt|my mya|na nau|nb nob|nd nde|ne nep npi|ng ndo|nl nld|nn nno|no nor|nr nbl|nv nav|ny nya|oc oci|oj oji
    om orm|or ori ory|os oss|pa pan|pi pli|pl pol|ps pus|pt por|qu que|rm roh|rn run|ro ron|ru rus|rw kin|sa san
    sc srd|sd snd|se sme|sg sag|sh hbs|si sin|sk slk|sl slv|sm smo|sn sna|so som|sq sqi als|sr srp|ss ssw|st sot|su sun
    sv swe|sw swa swh|ta tam|te tel|tg tgk|th tha|ti tir|tk tuk|tl tgl|tn tsn|to ton|tr tur|ts tso|tt tat|tw twi
    ty tah|ug uig|uk ukr|ur urd|uz uzb uzn|ve ven|vi vie|vo vol|wa wln|wo wol|xh xho|yi yid|yo yor|za zha|zh zho cmn
    zu zul
    """.replace("\n", "|").split("|")
    if line.strip()
}
SHORT = {code: short for short, codes in CODES.items() for code in codes}
# Groups of languages (ISO 639-5), and names that OPUS-MT gave to groups.
GROUPS = set(
    """
    aav afa alv art bat ber bnt cau ccs cel cpf cpp cpe crp cus dra euq fiu gem gmq gmw grk iir inc ine ira itc jap map
    mkh mul nic ngf phi poz pqe pqw roa sal sem sit sla smi sqj trk tut urj zle zls zlw mis und
    """.split()
)
# The script that a language has if a code does not name it.
SCRIPTS = {"zh": "Hans", "sr": "Cyrl", "az": "Latn", "uz": "Latn", "kk": "Cyrl", "tt": "Cyrl", "bs": "Latn"}

OWNER = "Helsinki-NLP"
# OPUS-MT's models for pairs that have none of their own, as in opus-mt-SOURCE-TARGET.
OPUS_MODELS = {
    ("en", "pt"): ("opus-mt-tc-big-en-pt", "opus-mt-en-ROMANCE"),
    ("pt", "en"): ("opus-mt-ROMANCE-en",),
    ("en", "ro"): ("opus-mt-en-ro", "opus-mt-tc-big-en-ro"),
    ("ro", "en"): ("opus-mt-roa-en", "opus-mt-ROMANCE-en"),
    ("en", "tr"): ("opus-mt-tc-big-en-tr",),
    ("en", "ja"): ("opus-mt-en-jap",),
    ("en", "ko"): ("opus-mt-tc-big-en-ko",),
    ("en", "pl"): ("opus-mt-en-zlw", "opus-mt-en-sla"),
    ("en", "no"): ("opus-mt-en-gmq",),
    ("en", "nb"): ("opus-mt-en-gmq",),
    ("no", "en"): ("opus-mt-gmq-en",),
    ("nb", "en"): ("opus-mt-gmq-en",),
    ("en", "sr"): ("opus-mt-en-zls", "opus-mt-tc-base-en-sh"),
    ("en", "hr"): ("opus-mt-en-zls", "opus-mt-tc-base-en-sh"),
    ("en", "sl"): ("opus-mt-en-zls",),
    ("sr", "en"): ("opus-mt-tc-big-zls-en", "opus-mt-zls-en"),
    ("hr", "en"): ("opus-mt-tc-big-zls-en", "opus-mt-zls-en"),
    ("sl", "en"): ("opus-mt-tc-big-zls-en", "opus-mt-zls-en"),
    ("en", "lt"): ("opus-mt-tc-big-en-lt",),
    ("en", "lv"): ("opus-mt-tc-big-en-lv",),
    ("he", "en"): ("opus-mt-tc-big-he-en",),
}
# Families whose models translate between any two of their languages, or into and from English.
FAMILIES = {
    "ROMANCE": set("fr es it pt ro ca gl oc la sc rm an co".split()),
    "gmq": set("sv da nb nn no is fo".split()),
    "sla": set("ru uk be pl cs sk bg mk sr hr bs sl".split()),
}


def short_code(code: str) -> str:
    """Returns the ISO 639-1 code of a language, without script and region, or its own code if it has none.

    "deu", "DE" and "de-AT" give "de"; "zho_Hans" gives "zh"; "ast" gives "ast".
    """
    language = re.split("[-_]", code.strip().lower())[0]
    return SHORT.get(language, language)


def is_language(code: str | None) -> bool:
    """Whether a code names one language, not a group such as "roa" or "mul"."""
    return bool(re.fullmatch("[a-z]{2,3}", code or "")) and code not in GROUPS


def same_language(first: str, second: str) -> bool:
    return short_code(first) == short_code(second)


def match_code(requested: str, codes: Iterable[str]) -> str | None:
    """Returns the code of a model's target language that a user means, or None if it does not have the language.

    The same code wins, then the same language with the requested script or region. Without one, the code that has none,
    then the one with the language's usual script, then the only one.

    Raises:
        LookupError: several codes fit; its arguments are the codes.
    """
    codes = list(codes)
    plain = {code.lower().replace("_", "-"): code for code in codes}
    wanted = requested.strip().lower().replace("_", "-")
    if wanted in plain:
        return plain[wanted]
    language, _, variant = wanted.partition("-")
    fitting = [code for code in codes if same_language(code, language)]
    variants = [variant] if variant else ["", SCRIPTS.get(short_code(language), "").lower()]
    # Of a macrolanguage such as Chinese, the code of its own name comes before that of its main language.
    for name in (language, short_code(language), *CODES.get(short_code(language), ())):
        for code in (plain.get(f"{name}-{variant}".rstrip("-")) for variant in variants):
            if code:
                return code
    if len(fitting) > 1:
        raise LookupError(*fitting)
    return fitting[0] if fitting and not variant else None


def opus_names(source: str, target: str) -> Sequence[str]:
    """Returns the ids on the Hub that OPUS-MT's model for two languages can have, the likeliest first."""
    source, target = short_code(source), short_code(target)
    direct = f"opus-mt-{source}-{target}", f"opus-mt-tc-big-{source}-{target}"
    groups = []
    for group, languages in FAMILIES.items():
        if source == "en" and target in languages:
            groups.append(f"opus-mt-en-{group}")
        if target == "en" and source in languages:
            groups.append(f"opus-mt-{group}-en")
    names = [*OPUS_MODELS.get((source, target), ()), *direct, *groups]
    return [f"{OWNER}/{name}" for name in dict.fromkeys(names)]
