"""Small models with the files that published ones have on the Hub, and a client that asks a Hub of a test."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import huggingface_hub
import sacremoses
import sentencepiece
import torch
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


def opus_mt(folder: Path, codes: tuple[str, ...] = (), pickled: bool = True, languages=("en", "de"), **fields) -> Path:
    """Writes the files of an OPUS-MT model, as on the Hub; `codes` are its target languages, such as ">>fra<<"."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = (write_pieces(folder / f"{n}.spm", x) for n, x in (("source", ENGLISH), ("target", GERMAN)))
    tokens = ["</s>", "<unk>", *dict.fromkeys([*source, *target]), *codes, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}), "utf-8")
    pad = len(tokens) - 1
    names = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, "model_max_length": 512}), "utf-8")
    ids = dict(pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=0)
    config = MarianConfig(**{**SIZES, **ids, "vocab_size": len(tokens), "max_position_embeddings": 512, **fields})
    model = randomised(MarianMTModel(config))
    model.generation_config.update(
        bad_words_ids=[[pad]], renormalize_logits=True, num_beams=4, max_length=512, forced_eos_token_id=0
    )
    return save(model, folder, pickled)


def fsmt(folder: Path, pickled: bool = True) -> Path:
    """Writes the files of an FSMT model, as on the Hub."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    moses = sacremoses.MosesTokenizer("en")
    words = [moses.tokenize(line, aggressive_dash_splits=True, return_str=True) for line in [*ENGLISH, *GERMAN]]
    trained.train_from_iterator(
        words, trainers.BpeTrainer(vocab_size=120, end_of_word_suffix="</w>", show_progress=False)
    )
    model = json.loads(trained.to_str())["model"]
    (folder / "merges.txt").write_text("".join(f"{a} {b} 7\n" for a, b in model["merges"]), "utf-8")
    ids = {token: i for i, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", *sorted(model["vocab"])))}
    for side in ("src", "tgt"):
        (folder / f"vocab-{side}.json").write_text(json.dumps(ids), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["en", "de"], "model_max_length": 1024}))
    sizes = dict(src_vocab_size=len(ids), tgt_vocab_size=len(ids), max_position_embeddings=64)
    config = FSMTConfig(**SIZES, **sizes, langs=["en", "de"], num_beams=5, max_length=200)
    return save(randomised(FSMTForConditionalGeneration(config)), folder, pickled)


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
