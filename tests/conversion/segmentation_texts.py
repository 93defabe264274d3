"""Texts to segment, awkward ones among them, and how toolkits look their pieces up."""

import io
from pathlib import Path

from subword_nmt.apply_bpe import BPE

from conversion.segmentation import Vocabulary


ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "fixtures"
CODES = FILES / "torch_nn_transformer" / "bpe.codes"
# English and some German: prose, tables, code, addresses.
DOCUMENTS = [FILES / "documents" / f"{name}.md" for name in ("readme", "contributing", "training", "card")]
LINES = [line for document in DOCUMENTS for line in document.read_text(encoding="utf-8").splitlines()]
AWKWARD = [
    "", " ", "   ", "\t", "\u00a0", "a", "  two  spaces  ", " \u00a0 x", "a\tb", "10\u00a0000\u00a0€", "\u200bx\u200b",
    "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪1️⃣", "中文 日本語 한국어", "Ü ﬁ Å ™ ½ Ⅷ …", "ΑΣ ΣΑΣ", "İ ẞ ß",
    "</s> <s>a <pad><unk> <mark>x",
    "@@ a@@b x@@ @@y", "\u2581 a\u2581b", "<0x41>", "....... ------- aaaaaaaa 0000000", "\x00\x01\ufeff",
]  # fmt: skip
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def vocabulary(pieces) -> Vocabulary:
    return Vocabulary([*SPECIAL, *pieces], bos=0, pad=1, eos=2, unk=3)


def piece_ids(pieces, known: Vocabulary) -> list[int]:
    """As toolkits look pieces up."""
    numbers = {token: number for number, token in enumerate(known.tokens)}
    return [*(numbers.get(piece, 3) for piece in pieces), 2]


def subword_nmt_on(path: Path) -> BPE:
    text = path.read_text(encoding="utf-8")
    if text.splitlines()[0].count(" ") == 2:  # fastBPE's counts
        text = "#version: 0.2\n" + "".join(line.rpartition(" ")[0] + "\n" for line in text.splitlines())
    return BPE(io.StringIO(text))


def all_pieces(spm) -> list[str]:
    return [spm.id_to_piece(i) for i in range(spm.get_piece_size()) if not spm.is_control(i) and not spm.is_unknown(i)]
