"""Trains SuPar's CRF constituency parser on the trees of the experiment `parsing`, for comparison.

    python -m experiments.parsing clean DATA/craft_treebank WORK
    python -m venv SUPAR && SUPAR/bin/pip install supar==1.1.4 "transformers<5" torch==2.13.0
    SUPAR/bin/python experiments/dedicated_parser.py WORK --epochs 2
    python -m experiments.parsing score DATA/craft_treebank/test.mrg.xz --parsed WORK/parsed.mrg

SuPar (Zhang et al. 2020, "Fast and Accurate Neural CRF Constituency Parsing") needs an older transformers, so it has an
environment of its own, without this project. It reads words and letters, and no parts of speech.
"""

import argparse
import functools
import re
from pathlib import Path

import torch
from supar import CRFConstituencyParser  # ty: ignore[unresolved-import]


MAX_WORDS = 60  # of training sentences: a chart takes memory and time with their square and cube
DEV = 300  # sentences that choose the epoch
IGNORED = {"TOP", "S1", "-NONE-", ",", ":", "``", "''", ".", "?", "!", ""}


def main():
    command = argparse.ArgumentParser()
    command.add_argument("work", type=Path, help="folder with train.mrg, dev.mrg and test.mrg; for the model, too")
    command.add_argument("--epochs", type=int, default=2)
    options = command.parse_args()
    for part, name, choose in (("train", "short", is_short), ("dev", "few", lambda _: True)):
        trees = (options.work / f"{part}.mrg").read_text(encoding="utf-8").splitlines(keepends=True)
        chosen = list(filter(choose, trees))[: DEV if part == "dev" else None]
        (options.work / f"{name}.mrg").write_text("".join(chosen), encoding="utf-8")

    torch.load = functools.partial(torch.load, weights_only=False)  # SuPar's own file, written below
    torch.manual_seed(1)
    train, dev, test, parsed = (str(options.work / f"{name}.mrg") for name in ("short", "few", "test", "parsed"))
    settings = dict(
        train=train, dev=dev, test=dev, delete=IGNORED, equal={"ADVP": "PRT"}, mbr=True, verbose=True,
        feat=["char"], encoder="lstm", embed=None, unk="unk", n_embed=100, n_char_embed=50, n_char_hidden=100,
        embed_dropout=0.33, n_lstm_hidden=250, n_lstm_layers=3, encoder_dropout=0.33, n_span_mlp=250, n_label_mlp=100,
        mlp_dropout=0.33, lr=2e-3, mu=0.9, nu=0.9, eps=1e-12, weight_decay=1e-5, clip=5.0, decay=0.75, decay_steps=1000,
        checkpoint=False, update_steps=1,
    )  # fmt: skip
    parser = CRFConstituencyParser.build(str(options.work / "model"), build=True, min_freq=2, fix_len=20, **settings)
    print(f"{sum(weight.numel() for weight in parser.model.parameters()):,} parameters")
    parser.train(buckets=32, batch_size=2000, epochs=options.epochs, patience=options.epochs, **settings)
    parser.predict(test, pred=parsed, buckets=8, batch_size=2000, mbr=True, verbose=True)


def is_short(tree: str) -> bool:
    return len(re.findall(r"\([^\s()]+ [^\s()]+\)", tree)) <= MAX_WORDS


if __name__ == "__main__":
    main()
