"""A pipeline for processes of tests, whose search takes as many steps as the text says."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import torch


class Model:
    generation_config = "the config"

    def generate(self, path, stopping_criteria):
        """Searches until it is stopped, and reports it by a file."""
        while True:
            Path(path).touch()
            for criterion in stopping_criteria:
                criterion(torch.zeros(2, 3, dtype=torch.long), None)


class Pipeline:
    def __init__(self):
        self.model = Model()

    def translate(self, texts, **settings):
        kind, _, path = texts[0].partition(" ")
        if kind == "search":
            self.model.generate(path)
        while kind == "hang":
            time.sleep(1)
        if kind == "die":
            os._exit(9)
        if kind == "fail":
            raise LookupError(SimpleNamespace)  # which the message names
        return [[{"translation_text": text, "process": os.getpid()}] for text in texts]


def load():
    return {("en", "de"): Pipeline()}


def refuse():
    raise LookupError("no model")
