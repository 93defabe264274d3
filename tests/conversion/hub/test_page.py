"""The explorer's page as a Space: the files of an export and a README for the Hub."""

import json
from pathlib import Path

import pytest
import yaml
from tiny_checkpoint import tiny_checkpoint
from typer.testing import CliRunner

from conversion.hub.page import app


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    """A Space that a dry run has staged."""
    out = tmp_path_factory.mktemp("space") / "page-staged"
    result = run("ada/page", "--stage", str(out))
    assert result.exit_code == 0, result.output
    assert "Dry run: nothing was uploaded. Add --push to upload to the Space ada/page.\n" in result.stdout
    return out


def run(*arguments: str):
    return CliRunner().invoke(app, [*arguments, "--checkpoint", str(tiny_checkpoint())])


def test_the_space_is_an_exported_page_with_a_readme_for_the_hub(staged):
    metadata = yaml.safe_load((staged / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert metadata["sdk"] == "static" and (staged / metadata["app_file"]).is_file()
    assert len(metadata["short_description"]) <= 60  # the Hub's limit
    assert "<html data-exported" in (staged / "index.html").read_text(encoding="utf-8")
    offer = json.loads((staged / "data" / "checkpoints.json").read_text(encoding="utf-8"))
    assert offer["current"] == "tiny-en-de" and "Checkpoints: tiny-en-de." in (staged / "README.md").read_text("utf-8")


def test_only_an_earlier_page_is_overwritten(staged, tmp_path):
    (staged / "left.txt").write_text("of the page before", encoding="utf-8")
    assert run("ada/page", "--stage", str(staged)).exit_code == 0
    assert not (staged / "left.txt").exists()
    (tmp_path / "mine-staged").mkdir()
    (tmp_path / "mine-staged" / "mine.txt").write_text("mine", encoding="utf-8")
    result = run("ada/page", "--stage", str(tmp_path / "mine-staged"))
    assert result.exit_code == 1 and (tmp_path / "mine-staged" / "mine.txt").is_file()


@pytest.mark.parametrize("name", ["page", "a/b/c"])
def test_a_name_that_is_not_one_of_the_hub_is_refused_before_any_work(name):
    assert run(name).exit_code == 1
