"""The guide's files for a deployment: their times and names fit, and Docker builds and runs them where it can."""

import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml
from guide import invoke
from waiting import TIMEOUT, wait_until

from vaswani_transformer.commands.serve import serve


PROJECT = Path(__file__).parents[2]
GUIDE = (PROJECT / "docs/guide/serving.md").read_text()
DOCKERFILE, COMPOSE, UNIT = (
    re.search(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)[1] for kind in ("dockerfile", "yaml", "ini")
)
REQUIREMENT = '"vaswani-transformer[serve]"'
STOP_SECONDS = 10  # of the server, as the guide promises


@pytest.fixture
def docker() -> Callable[..., str]:
    """Runs a command of Docker and returns what it prints."""
    if shutil.which("docker") is None:
        pytest.skip("needs Docker")

    def run(*arguments: str, **options) -> str:
        result = subprocess.run(["docker", *arguments], capture_output=True, text=True, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    try:
        run("info")
    except AssertionError as error:
        pytest.skip(f"needs a Docker daemon: {str(error).splitlines()[0]}")
    return run


def instructions(name: str) -> list[str]:
    lines = re.sub(r"\\\n", " ", DOCKERFILE).splitlines()
    return [line.partition(" ")[2].strip() for line in lines if line.startswith(f"{name} ")]


def test_nothing_kills_the_server_before_it_has_ended():
    assert int(re.search(r"--stop-timeout (\d+)", GUIDE)[1]) > STOP_SECONDS
    assert int(yaml.safe_load(COMPOSE)["services"]["translate"]["stop_grace_period"].removesuffix("s")) > STOP_SECONDS
    unit = ConfigParser(interpolation=None, delimiters="=")
    unit.optionxform = str
    unit.read_string(UNIT)
    assert int(unit["Service"]["TimeoutStopSec"]) > STOP_SECONDS


def test_the_files_agree_about_ports_folders_and_names():
    port, [compose] = (
        str(inspect.signature(serve).parameters["port"].default),
        yaml.safe_load(COMPOSE)["services"].values(),
    )
    assert instructions("EXPOSE") == [port]
    assert compose["ports"] == [f"127.0.0.1:{port}:{port}"] and f"-p {compose['ports'][0]}" in GUIDE
    [environment] = instructions("ENV")
    folder = environment.removeprefix("HF_HOME=")
    assert [volume.partition(":")[2] for volume in compose["volumes"]] == [folder]
    [run] = instructions("RUN")
    assert f"install --directory --owner={instructions('USER')[0]} {folder}" in run
    assert REQUIREMENT in run and "serve" in (PROJECT / "pyproject.toml").read_text()
    subprocess.run(["bash", "-n", "-c", run], check=True)


def test_the_health_check_and_the_command_run():
    [check], [command] = instructions("HEALTHCHECK"), instructions("CMD")
    python, option, code = json.loads(check.removeprefix("CMD "))
    assert (python, option) == ("python", "-c") and ":5000/health" in code
    compile(code, "HEALTHCHECK", "exec")
    program, *arguments = json.loads(command)
    assert program == "vaswani" and invoke(shlex.join([program, *arguments, "--help"])).exit_code == 0


@pytest.mark.slow
def test_docker_builds_and_runs_them(docker, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PROJECT, check=True)
    [wheel] = tmp_path.glob("*.whl")  # of these files, not of the latest release
    dockerfile = DOCKERFILE.replace("RUN ", f"COPY {wheel.name} /\nRUN ", 1)
    (tmp_path / "Dockerfile").write_text(dockerfile.replace(REQUIREMENT, f'"/{wheel.name}[serve]"'))
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        assert "translate" in json.loads(docker("compose", "config", "--format", "json", cwd=tmp_path))["services"]
    image = docker("build", "--quiet", str(tmp_path))
    container = docker("run", "--detach", "--publish", "127.0.0.1::5000", "--stop-timeout", "15", image)
    try:

        def state(field: str) -> str:
            return docker("inspect", "--format", f"{{{{.State.{field}}}}}", container)

        wait_until(lambda: state("Health.Status") == "healthy", lambda: docker("logs", container))
        fields = json.dumps({"q": "Good morning.", "source": "en", "target": "de"}).encode()
        address = f"http://{docker('port', container, '5000').splitlines()[0]}/translate"
        request = Request(address, fields, {"Content-Type": "application/json"})
        answer = json.loads(urlopen(request, timeout=TIMEOUT).read())
        assert answer == {"translatedText": "Guten Morgen."}
        docker("stop", container)
        assert state("ExitCode") == "0"
    finally:
        docker("rm", "--force", container)
        docker("rmi", "--force", image)
