"""The compose file is valid, pins its images, and keeps the password off the command line."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"


def compose_command():
    if (
        shutil.which("docker")
        and subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    ):
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("neither `docker compose` nor `docker-compose` is installed")


def config(**environment):
    return subprocess.run(
        [*compose_command(), "-f", COMPOSE, "--profile", "tool", "config"], capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment}, cwd=ROOT, check=False,
    )  # fmt: skip


def test_the_compose_file_is_accepted_and_serves_neo4j_on_this_machine_only():
    shown = config(PROVSTORE_NEO4J_PASSWORD="a-password")

    assert shown.returncode == 0, shown.stderr
    assert "neo4j/a-password" in shown.stdout
    assert "127.0.0.1" in shown.stdout


def test_without_a_password_the_compose_file_says_which_variable_to_set():
    shown = config()

    assert shown.returncode != 0
    assert "set PROVSTORE_NEO4J_PASSWORD" in shown.stderr


def test_every_image_that_is_pulled_names_its_release():
    images = re.findall(r"^\s*image: (\S+)$", COMPOSE.read_text(), re.MULTILINE)
    images += re.findall(r"^FROM (\S+)", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    pulled = [image for image in images if image != "provstore"]

    assert len(pulled) >= 2
    assert all(re.search(r":\d+\.\d+", image) for image in pulled)
