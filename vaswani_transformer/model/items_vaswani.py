"""Items of a text that are copied, not translated: they mean the same everywhere, or something to a program."""

import re


# A sentence's punctuation after an address is not a part of it; pairs of parentheses are.
ADDRESS = r"""(?:[^\s<>"'»“”()]|\([^\s<>"'»“”()]*\))*(?<![\s<>"'»“”.,;:!?\]}])"""
NAME = r"(?<![\w.@/\\-])(?:[\w-]+\.)+"  # "www.example." of www.example.org
DOMAINS = "com|org|net|edu|gov|io|dev|eu|de|fr|ch|info|example"  # domains that are not words after a missing space
FILES = (
    "7z|avi|bak|bat|bin|bmp|c|cfg|conf|cpp|cs|css|csv|dll|docx?|env|epub|exe|gif|gz|h|html?|icns|ini|ipynb|iso|jar|"
    "java|jpe?g|js|json|jsonl|jsx|kt|lock|log|md|mkv|mov|mp[34]|msi|odp|ods|odt|parquet|pdf|php|pkl|png|po|pptx?|ps1|psd|py|"
    "rar|rb|rs|rst|rtf|safetensors|sh|sql|sqlite|srt|svg|swift|tar|tex|tiff?|toml|tsv|tsx?|ttf|txt|vtt|wav|webp|whl|"
    "xhtml|xlf|xlsx?|xml|ya?ml|zip"
)
FILES += "".join(f"|{ending}" for ending in FILES.upper().split("|") if len(ending) > 1)  # not "the end.C is"
EMOJI = r"[\u231A-\u23FF\u2600-\u27BF\u2B05-\u2B55\U0001F000-\U0001FAFF]"
MODIFIERS = r"\uFE0F\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F"  # as an emoji, skin colours, regional flags
GAP = r"[ \u00a0\u202f./-]"  # between digits of a telephone number
ABROAD = r"(?:(?<!\w)\+|(?<![\w.,/-])00(?=[1-9]\d))"  # before a country code

# Streets with a number, and places with a postal code after them; both are written in the country's own language.
WORD = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]+"
GERMAN_STREET = (
    rf"\b(?:(?:Kleine|Große|Alte|Neue|Obere|Untere|Lange)[ ])?(?:{WORD}-){{0,3}}{WORD}-?"
    r"(?i:stra(?:ß|ss)e|str\.|gasse|weg|allee|platz|damm|ufer)[ ]\d{1,4}(?:[ ]?[a-h])?\b"
    rf"(?:,[ ](?:[AD]-)?\d{{4,5}}[ ]{WORD})?"
)
ENGLISH_STREET = (
    rf"\b(?!(?:1[89]|20)\d\d[ ])\d{{1,5}}[A-Z]?[ ](?:{WORD}[ ]){{1,3}}"
    r"(?:Street|Road|Avenue|Lane|Drive|Crescent|Boulevard|St|Rd|Ave|Blvd)\b"
    rf"(?:,(?:[ ]{WORD}){{1,2}}[ ][A-Z]{{1,2}}\d[A-Z\d]?[ ]\d[A-Z]{{2}}\b)?"
)
FRENCH_STREET = (
    r"\b\d{1,4}(?:[ ](?:bis|ter))?,?[ ](?:rue|avenue|boulevard|bd|place|impasse|chemin|quai|allée)"
    rf"(?:[ ](?:de|des|du|la|le|les))*(?:[ ](?:[dlDL]['’])?{WORD}(?:-{WORD})*){{1,3}}(?:,[ ]\d{{5}}[ ]{WORD})?"
)

# Each pattern runs in linear time: repeated groups are separated by characters that they cannot contain.
PATTERNS = (
    rf"(?:\b[A-Za-z][A-Za-z\d+.-]{{0,30}}://|\bmailto:|www\.|WWW\.){ADDRESS}",  # URLs, www.example.org
    r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",  # e-mail addresses
    rf"{NAME}(?:[a-z]{{2,24}}|{DOMAINS.upper()})(?::\d+)?/{ADDRESS}",  # example.org/help
    rf"{NAME}(?:{DOMAINS}|{DOMAINS.upper()})(?![\w-]|\.\w)",  # example.org, EXAMPLE.ORG
    r"\{\{[^{}]{1,80}\}\} | \$?\{[^{}\s]*\}",  # {{ name }}, {name}, ${name}
    r"(?<=\s):[a-z]\w+ | \[[A-Z][A-Z\d_ ]*\](?!\()",  # :name, [NAME]
    r"%(?:\(\w+\)|\d+\$)?[-+\#0]*\d*(?:\.\d+)?[sdifgxXeEcu@](?!\w) | %%",  # %s, %(name)s, %1$d, %.2f
    r"<(?P<tag>code|kbd|samp|var)\b[^<>]*>[^<>]*</(?P=tag)>",  # <code>text</code>
    r"</?[A-Za-z][^<>]*>",  # <b>, </a>, <x id="1"/>
    r"&(?:\w+|\#\d+|\#x[0-9A-Fa-f]+);",  # &nbsp;
    r"`[^`\s](?:[^`]*[^`\s])?`",  # `code`
    r"\[(?=[^][]+\]\([^()\s]+\)) | \]\([^()\s]+\)",  # [ and ](address)
    r"(?<![\w*])\*{1,3}(?=\w) | (?<=[\w.!?])\*{1,3}(?![\w*])",  # *, **
    r"(?<![\w/-])[A-Za-z]:(?:\\[\w.~+-]*[\w~+-])+",  # C:\a\b
    r"(?<![\w/-])(?:\.{0,2}/|~/)[\w.~+-]*[\w~+-](?:/[\w.~+-]*[\w~+-])+/?",  # /usr/bin, ./a/b
    rf"(?<![\w./\\~+-])(?:[\w.~+-]+/)*(?:[\w+-][\w.+-]*[\w+-]|\w(?=\.\w\w))\.(?:{FILES})(?![\w-]|\.\w)",  # config.json
    r"(?<![\w-])--[A-Za-z][\w-]*",  # --option
    r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*\(\)",  # f(), object.method()
    r"\b\w+_\w+(?:\.\w+)*\b",  # snake_case, ERROR_42, DSC_0001.NEF
    r"\b[a-z]{2}[a-z\d]*[A-Z][A-Za-z\d]*\b",  # camelCase
    r"\b(?:[A-Z][a-z\d]+){3,}\b",  # NullPointerException
    r"(?<!\w)[@\#]\w+",  # @someone, #topic
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d+)?(?![\w.]*\d)",  # 10.0.0.1, 10.0.0.1:80, 10.0.0.0/8
    rf"{ABROAD}(?=(?:(?:{GAP}|[()]){{0,2}}\d){{7}})\d{{1,3}}(?:{GAP}?\(\d{{1,5}}\)\d*|{GAP}\d{{1,12}})+",
    rf"{ABROAD}\d{{8,15}}\b",  # +33 1 99 00 47 32, 0049 30 555019, +49 (0)171 555-0199, +491715550199
    r"\(0\d{1,5}\)[ \u00a0/-]?\d{3,}(?:[ -]\d{2,9})*\b |"
    r"(?<![\w.,/-])(?<!\d[ \u00a0\u202f])0[1-9]\d{1,4}[ \u00a0/-]\d{3,}(?:[ -]\d{2,9})*\b",  # not in 5 010 000
    r"(?<![\w.,/-])0\d(?:(?:[ \u00a0\u202f]\d\d){4}|(?:\.\d\d){4}|(?:-\d\d){4})\b",  # 0171-555 0199; 01 99 00 47 32
    r"(?:(?<!\w)\(\d{3}\)[ \u00a0]?|(?<![\w.,/-])(?:1-)?\d{3}-)\d{3}-\d{4}\b",  # (555) 010-9999
    r"\b0x[0-9A-Fa-f]+\b | \b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b",  # 0x80070057, UUIDs
    r"(?<![\w.,/-])(?<!\d[ ])(?:\d{4}(?:[ ]\d{4}){3} | \d+(?:-\d+){2,}-[\dX] | \d{9,}"
    r"| \d{3}(?:[ ]\d{3}){2}[ ]\d{5})\b(?![ .,-]?\d)",  # card numbers, ISBNs, SIRET numbers
    r"(?<![\w.,/-])(?=[\d-]*[A-Z])(?=(?:[A-Z]+-)*[A-Z]*\d[A-Z\d]*-(?:[A-Z]+-)*[A-Z]*\d)"  # two groups have digits
    r"[A-Z\d]+(?:-[A-Z\d]+){2,}\b(?!-)",  # CVE-2024-3094, SN48-7719-QX
    r"\b[A-Z]{2}\d\d[ ]?[A-Z\d]{4}(?:[ ]?\d[A-Z\d]{3}){2,6}(?:[ ]?\d[A-Z\d]{0,2})?\b",  # IBANs
    rf"\b10\.\d{{4,9}}/{ADDRESS}",  # DOIs
    r"(?<![\w:])(?=[A-Fa-f:]*\d)(?=[\dA-Fa-f:]*::|(?:[\dA-Fa-f]{1,4}:){5})"
    r"[\dA-Fa-f]{1,4}(?:::?[\dA-Fa-f]{1,4}){1,7}(?:/\d+)?(?!\w|:\w)|"
    r"\b(?:[\dA-Fa-f]{2}-){5}[\dA-Fa-f]{2}\b",  # 2001:db8::1, fe80::/10, 00:1A:2B:3C:4D:5E, 00-1A-2B-3C-4D-5E
    r"\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z\d]{8,64}\b",  # 1Z999AA10123456784
    r"(?<=BIC[ ])[A-Z\d]{8,11}\b | (?<=BIC:[ ])[A-Z\d]{8,11}\b | (?<=SWIFT:[ ])[A-Z\d]{8,11}\b",
    r"(?<![\w./-])(?=[\w/-]*[A-Z])[A-Z\d]+(?:/[A-Z\d-]*\d[A-Z\d-]*){2,}\b(?!\.?[/\w])",  # SA/0042/77-B
    r"(?:(?<=\d[ ])|(?<=m[ ])|(?<=m\.[ ]))(?:GMT|UTC|BST|CET|CEST|EST|EDT|PST|PDT)\b",  # after a time
    r"[★☆]{2,}",  # a rating
    GERMAN_STREET,  # Lindenweg 14, 53111 Bonn
    ENGLISH_STREET,  # 14 Elm Road, Bristol BS6 5AB
    FRENCH_STREET,  # 21 bis, rue de la République, 69002 Lyon
    r"\b(?=[A-Fa-f]{0,63}\d)(?=\d{0,63}[A-Fa-f])(?:[a-f\d]{7,64}|[A-F\d]{7,64})\b",  # hashes
    r"\bv\d+(?:\.\d+)+\b",  # v2.1
    r"[\U0001F1E6-\U0001F1FF]{2} | [\d\#*]\uFE0F?\u20E3",  # flags, keycaps
    rf"(?P<emoji>(?:{EMOJI}|[^\w\s]\uFE0F)(?:[{MODIFIERS}]|\u200D{EMOJI})*)(?P=emoji)*",  # emoji, or a row of one
)
KEPT_ITEM = re.compile("|".join(PATTERNS), re.VERBOSE)


def kept_items(text: str) -> list[str]:
    """Return the URLs, e-mail addresses, placeholders, tags, paths and the like, in their order."""
    return [match[0] for match in KEPT_ITEM.finditer(text)]


def outside_kept_items(text: str) -> str:
    """Return the text with a space instead of each item to keep."""
    return KEPT_ITEM.sub(" ", text)
