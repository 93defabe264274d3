"""Small models with the files that published ones have on the Hub, and a client for the Hub of a test.

`opus_mt` and `fsmt` write random models. With `capitals=True` they write models that "translate" by writing capitals,
which `fixtures/capitals/make.py` has trained.
"""

import argparse
import json
import os
import shutil
import string
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import huggingface_hub
import sacremoses
import sentencepiece
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import FSMTConfig, FSMTForConditionalGeneration, MarianConfig, MarianMTModel

from conversion.files.pickles import load_pickle


SIZES = dict(
    d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2,
    decoder_attention_heads=2,
)  # fmt: skip
ENGLISH = "Good morning.|The house is small.|A dog sleeps in the sun.|Where is the station?|We read 12 books.".split(
    "|"
)
GERMAN = "Guten Morgen.|Das Haus ist klein.|Ein Hund schläft.|Wo ist der Bahnhof?|Wir lesen 12 Bücher.".split("|")


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter and bias random, so that a swap of two of them shows."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
        if "embed_positions" not in name:
            parameter.data = parameter.data + 0.3 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def write_pieces(file: Path, lines: list[str]) -> list[str]:
    """Trains a SentencePiece model; returns its pieces without the special ones."""
    with file.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=writer, vocab_size=90, hard_vocab_limit=False, num_threads=1,
            minloglevel=2,
        )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(i) for i in range(3, len(model))]


def opus_mt(
    folder: Path,
    codes: tuple[str, ...] = (),
    pickled: bool = True,
    languages=("en", "de"),
    capitals: bool = False,
    **fields,
) -> Path:
    """Writes the files of an OPUS-MT model, as on the Hub; `codes` are its target languages, such as ">>fra<<"."""
    folder.mkdir(parents=True, exist_ok=True)
    if capitals:
        model = with_weights(capitals_marian(folder, codes), "marian")
    else:
        source, target = (write_pieces(folder / f"{n}.spm", x) for n, x in (("source", ENGLISH), ("target", GERMAN)))
        tokens = ["</s>", "<unk>", *dict.fromkeys([*source, *target]), *codes, "<pad>"]
        model = randomised(MarianMTModel(marian_config(folder, tokens, **{**SIZES, **fields})))
    names = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, "model_max_length": 512}), "utf-8")
    pad = model.config.pad_token_id
    model.generation_config.update(
        bad_words_ids=[[pad]], renormalize_logits=True, num_beams=4, max_length=512, forced_eos_token_id=0
    )
    return save(model, folder, pickled)


def marian_config(folder: Path, tokens: list[str], **fields) -> MarianConfig:
    """Writes the vocabulary, whose last token is the padding, and returns the configuration."""
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}), "utf-8")
    pad = len(tokens) - 1
    ids = dict(pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=0)
    return MarianConfig(**{**ids, "vocab_size": len(tokens), "max_position_embeddings": 512, **fields})


def fsmt(folder: Path, pickled: bool = True, capitals: bool = False) -> Path:
    """Writes the files of an FSMT model, as on the Hub."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["en", "de"], "model_max_length": 1024}))
    if capitals:
        return save(with_weights(capitals_fsmt(folder), "fsmt"), folder, pickled)
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    moses = sacremoses.MosesTokenizer("en")
    words = [moses.tokenize(line, aggressive_dash_splits=True, return_str=True) for line in [*ENGLISH, *GERMAN]]
    trained.train_from_iterator(
        words, trainers.BpeTrainer(vocab_size=120, end_of_word_suffix="</w>", show_progress=False)
    )
    model = json.loads(trained.to_str())["model"]
    config = fsmt_config(folder, sorted(model["vocab"]), model["merges"], **SIZES, max_position_embeddings=64)
    return save(randomised(FSMTForConditionalGeneration(config)), folder, pickled)


def fsmt_config(folder: Path, pieces: list[str], merges: list, **fields) -> FSMTConfig:
    """Writes the merges and both vocabularies, and returns the configuration."""
    (folder / "merges.txt").write_text("".join(f"{a} {b} 7\n" for a, b in merges), "utf-8")
    ids = {token: i for i, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", *pieces))}
    for side in ("src", "tgt"):
        (folder / f"vocab-{side}.json").write_text(json.dumps(ids), "utf-8")
    sizes = dict(src_vocab_size=len(ids), tgt_vocab_size=len(ids))
    return FSMTConfig(**fields, **sizes, langs=["en", "de"], num_beams=5, max_length=200)


# Models that write capitals -------------------------------------------------------------------------------------------

CAPITALS = Path(__file__).parent / "fixtures" / "capitals"
LETTERS = string.ascii_lowercase + "äöüéè"
KNOWN = LETTERS + LETTERS.upper() + string.digits + string.punctuation
CAPITALS_SIZES = dict(
    d_model=48, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64, encoder_attention_heads=4,
    decoder_attention_heads=4, dropout=0.0, attention_dropout=0.0, max_position_embeddings=512,
)  # fmt: skip
ESCAPES = "&apos;", "&quot;", "&amp;", "&#91;", "&#93;", "&#124;", "&lt;", "&gt;"  # of Moses


def capitals_of(text: str) -> str:
    """The translation of a text by these models."""
    return text.translate({ord(letter): letter.upper() for letter in LETTERS})


def capitals_marian(folder: Path, codes: tuple[str, ...] = ()) -> MarianMTModel:
    """Writes the files of the tokenizer, and returns an untrained model. A piece is a character."""
    with (folder / "source.spm").open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*KNOWN, "a b"]), model_writer=writer, model_type="bpe", character_coverage=1.0,
            vocab_size=len(KNOWN) + 4, num_threads=1, minloglevel=2,
        )  # fmt: skip
    (folder / "target.spm").write_bytes((folder / "source.spm").read_bytes())
    tokens = ["</s>", "<unk>", "▁", *KNOWN, *codes, "<pad>"]  # make.py has trained two codes
    return MarianMTModel(marian_config(folder, tokens, **CAPITALS_SIZES))


def capitals_fsmt(folder: Path) -> FSMTForConditionalGeneration:
    """Writes the files of the tokenizer, and returns an untrained model. A piece is a character or an escape."""
    merges = [
        [f"{escape[:i]}", escape[i] + "</w>" * (i == len(escape) - 1)]
        for escape in ESCAPES
        for i in range(1, len(escape))
    ]
    merges += [[escape[:-1], ";"] for escape in ESCAPES]
    inner = {"".join(pair) for pair in merges}
    pieces = [*KNOWN, *(f"{letter}</w>" for letter in KNOWN), *sorted(inner)]
    return FSMTForConditionalGeneration(fsmt_config(folder, pieces, merges, **CAPITALS_SIZES))


def fairseq(folder: Path) -> Path:
    """Writes the files of fairseq's archives: the weights of the FSMT model, dictionaries and byte-pair codes."""
    with tempfile.TemporaryDirectory() as original:
        model = with_weights(capitals_fsmt(Path(original)), "fsmt")
        pieces = list(json.loads((Path(original) / "vocab-src.json").read_text("utf-8")))[4:]
        merges = (Path(original) / "merges.txt").read_text("utf-8").replace(" 7\n", "\n")
    folder.mkdir(parents=True)
    lines = [piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@" for piece in pieces]
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text("".join(f"{line} 7\n" for line in lines), "utf-8")
    (folder / "bpecodes").write_text(f"#version: 0.2\n{merges}", "utf-8")
    config = model.config
    args = dict(
        arch="transformer_wmt_en_de", task="translation", source_lang="en", target_lang="de", dropout=0.0,
        encoder_embed_dim=config.d_model, decoder_embed_dim=config.d_model,
        **{f"{side}_{name}": getattr(config, f"{side}_{name}") for side in ("encoder", "decoder")
           for name in ("layers", "attention_heads")},
        encoder_ffn_embed_dim=config.encoder_ffn_dim, decoder_ffn_embed_dim=config.decoder_ffn_dim,
        encoder_normalize_before=False, decoder_normalize_before=False, share_decoder_input_output_embed=False,
        share_all_embeddings=False, activation_fn="relu",
    )  # fmt: skip
    learned = {name: tensor for name, tensor in model.state_dict().items() if "embed_positions" not in name}
    tensors = {name.removeprefix("model."): tensor for name, tensor in learned.items()}
    torch.save({"args": argparse.Namespace(**args), "model": tensors}, folder / "model.pt")
    return folder


def ctranslate2(folder: Path, original: Path) -> Path:
    """Writes the model of `original`, a MarianMTModel, by CTranslate2's own converter."""
    from ctranslate2.converters import TransformersConverter

    copied = ["source.spm", "target.spm"]
    return Path(TransformersConverter(str(original), copy_files=copied).convert(str(folder)))


def argos(package: Path, original: Path) -> Path:
    """Writes a package of Argos Translate with the model of `original`, a MarianMTModel."""
    languages = dict(from_code="en", from_name="English", to_code="de", to_name="German")
    metadata = {"package_version": "1.9", "argos_version": "1.9.0", **languages}
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(package, "w") as archive:
        model = ctranslate2(Path(temporary) / "model", original)
        archive.writestr("translate-en_de-1_9/metadata.json", json.dumps(metadata))
        archive.write(original / "source.spm", "translate-en_de-1_9/sentencepiece.model")
        for file in model.iterdir():
            if not file.name.endswith(".spm"):
                archive.write(file, f"translate-en_de-1_9/model/{file.name}")
    return package


def with_weights(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """Loads the trained weights, without those of languages that the model does not have."""
    weights = load_file(CAPITALS / f"{name}.safetensors")
    for key, parameter in model.named_parameters():
        if key in weights:  # the others are positions, which are computed
            weight = weights[key].float()
            parameter.data = torch.cat((weight[: len(parameter) - 1], weight[-1:]))
    model.tie_weights()
    return model.eval()


def save(model: torch.nn.Module, folder: Path, pickled: bool) -> Path:
    model.save_pretrained(folder)
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def put(hub, repo_id: str, folder: Path, branch: str = "main", **more: bytes) -> str:
    """Commits the files of a folder to a Hub of `hub_server`; returns the commit."""
    repo = hub.repos.setdefault(repo_id, {"private": False, "refs": {}, "commits": {}})
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    return hub.commit(repo, branch, files | more, repo["refs"].get(branch))


FIXTURES = Path(__file__).parent / "fixtures"
FAIRSEQ = FIXTURES / "fairseq" / "old_0.6.2"  # of the version that wrote the published archives


def fairseq_archive(archive: Path, *models: str) -> Path:
    """Writes a .tar.bz2 with the files of fairseq's WMT archives: bpecodes, two dictionaries and `models`.

    Its name has the languages, as in wmt16.en-de.joined-dict.transformer.tar.bz2.
    """
    languages = archive.name.split(".")[1].split("-")
    folder = archive.with_name(archive.name.removesuffix(".tar.bz2"))
    folder.mkdir(parents=True)
    shutil.copy(FIXTURES / "torch_nn_transformer" / "bpe.codes", folder / "bpecodes")
    for ours, theirs in zip(("src", "trg"), languages, strict=True):
        # The words that only fill the dictionary become Moses' escapes.
        words = (FAIRSEQ / f"dict.{ours}.txt").read_text("utf-8")
        words = words.replace("madeupword0000", "&quot;").replace("madeupword0001", "&apos;")
        (folder / f"dict.{theirs}.txt").write_text(words, "utf-8")
    meters = [f"fairseq.meters.{name}Meter" for name in ("Average", "Time", "Stopwatch")]
    saved = load_pickle(FAIRSEQ / "checkpoint_last.pt", allowed=[argparse.Namespace], ignored=meters)
    saved = {name: saved[name] for name in ("args", "model")}
    saved["args"].source_lang, saved["args"].target_lang = languages
    for name in models or ["model.pt"]:
        torch.save(saved, folder / name, _use_new_zipfile_serialization=False)
    with tarfile.open(archive, "w:bz2") as file:
        file.add(folder, folder.name)
    return archive


def ask(monkeypatch, url: str, home: Path):
    """Makes the Hub's client of this process ask `url`, with an empty cache in `home`."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HOME", str(home))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def run(script: str, *arguments: str | Path, **environment: str | Path) -> subprocess.Popen:
    """Starts a Python process with a script."""
    root = Path(__file__).parents[1]
    path = os.pathsep.join(map(str, (root, root / "tests")))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in environment.items()}}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
