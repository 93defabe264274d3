"""A SentencePiece model, and a fairseq checkpoint with Moses, that tests of several kinds of segmentation share."""

import shutil

import pytest
import sentencepiece
from segmentation_texts import CODES, FILES

from conversion.toolkits import fairseq


@pytest.fixture(scope="module")
def joint():
    """The model that JoeyNMT's checkpoint comes with."""
    path = FILES / "joeynmt" / "base" / "joint.model"
    return path, sentencepiece.SentencePieceProcessor(model_file=str(path))


@pytest.fixture(scope="module")
def fairseq_folder(tmp_path_factory):
    """Source and target have dictionaries of their own."""
    folder = tmp_path_factory.mktemp("fairseq") / "tieddec"
    shutil.copytree(FILES / "fairseq" / "tieddec", folder)
    shutil.copy(CODES, folder / "bpecodes")
    return folder


@pytest.fixture(scope="module")
def fairseq_moses(fairseq_folder):
    return fairseq.convert(fairseq_folder, moses=True, languages=("en", "de"))
