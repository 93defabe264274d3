"""A converted folder, for tests that read it and for those that change it."""

import shutil

import pytest
from hub_examples import converted_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return converted_folder(tmp_path_factory.mktemp("converted") / "tiny")


@pytest.fixture
def copy(folder, tmp_path):
    """Of the folder, to be changed."""
    return shutil.copytree(folder, tmp_path / "copy")
