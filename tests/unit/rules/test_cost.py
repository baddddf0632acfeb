"""cost: GPU prices -> Prometheus rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.rules.cost import DEFAULT, MODELS, Rate, read, rules


def written(folder: Path, text: str) -> Path:
    path = folder / "rates.toml"
    path.write_text(text)
    return path


def refusal(folder: Path, text: str) -> str:
    """The error message."""
    with pytest.raises(BadInput) as refused:
        read(written(folder, text))
    return str(refused.value).replace(str(folder), "")


def pattern_of(model: str) -> str:
    """The regular expression of a model in the rules."""
    found = re.search(r'model=~"(.*?)"\}', rules((Rate(model, 1.0),), "rates.toml"))
    assert found is not None
    return found[1].replace("\\\\", "\\")


class TestRead:
    """rates.toml."""

    def test_prices_keep_their_order(self, tmp_path: Path) -> None:
        """A price can be an integer."""
        text = '[usd_per_hour]\ndefault = 2\nH100 = 2.99\n"NVIDIA A100-SXM4-80GB" = 1.5\n'

        assert read(written(tmp_path, text)) == (
            Rate("default", 2.0),
            Rate("H100", 2.99),
            Rate("NVIDIA A100-SXM4-80GB", 1.5),
        )

    def test_shipped_file_is_valid(self) -> None:
        """It has a default price."""
        assert DEFAULT in {rate.model for rate in read(Path("alerts/rates.toml"))}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[usd_per_hour]\nH100 = 2\nA100 = -1\n", "/rates.toml, line 3: the price of A100 is negative"),
            ("[usd_per_hour]\n\nH1000 = 2\n", "/rates.toml, line 3: unknown GPU model 'H1000'"),
            ('[usd_per_hour]\nH100 = "2"\n', "/rates.toml, line 2: the price of H100 is not a number"),
            ("[usd_per_hour]\nH100 = true\n", "/rates.toml, line 2: the price of H100 is not a number"),
            ("[usd_per_hour]\nH100 = nan\n", "/rates.toml, line 2: the price of H100 is not a number"),
            ("[usd_per_hour]\nH100 = inf\n", "/rates.toml, line 2: the price of H100 is not a number"),
            ("[eur_per_hour]\nH100 = 1\n", "/rates.toml, line 1: unknown table eur_per_hour"),
            ("[usd_per_hour]\n", "/rates.toml has no prices"),
            ("", "/rates.toml has no prices"),
        ],
    )
    def test_invalid_price_is_refused_with_its_line(self, tmp_path: Path, text: str, said: str) -> None:
        assert refusal(tmp_path, text) == said

    def test_duplicate_is_refused_with_its_line(self, tmp_path: Path) -> None:
        assert "line 3" in refusal(tmp_path, "[usd_per_hour]\nH100 = 1\nH100 = 2\n")

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"cannot read .*nowhere\.toml: No such file"):
            read(tmp_path / "nowhere.toml")


class TestMatching:
    """Words of MODELS and the names of the driver."""

    @pytest.mark.parametrize(
        ("model", "name"),
        [
            ("H100", "NVIDIA H100 80GB HBM3"),
            ("H100", "NVIDIA H100 PCIe"),
            ("A100", "NVIDIA A100-SXM4-80GB"),
            ("A10", "NVIDIA A10"),
            ("T4", "Tesla T4"),
            ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ],
    )
    def test_word_matches_names_of_its_model(self, model: str, name: str) -> None:
        """Prometheus anchors regular expressions at both ends."""
        assert re.fullmatch(pattern_of(model), name)

    @pytest.mark.parametrize(
        ("model", "name"), [("A10", "NVIDIA A100-SXM4-80GB"), ("A10", "NVIDIA A10G"), ("L4", "NVIDIA L40S")]
    )
    def test_word_does_not_match_a_longer_one(self, model: str, name: str) -> None:
        """A10 and A100."""
        assert not re.fullmatch(pattern_of(model), name)

    def test_every_word_matches_at_most_one_model(self) -> None:
        """The order of the file does not matter."""
        for model in MODELS:
            others = [one for one in MODELS if one != model and re.fullmatch(pattern_of(one), f"NVIDIA {model}")]
            assert not others, (model, others)

    def test_name_from_the_driver_is_escaped(self) -> None:
        """It precedes words."""
        text = rules((Rate("A100", 1.0), Rate("NVIDIA A100-SXM4-80GB", 2.0)), "rates.toml")

        assert text.index("NVIDIA A100-SXM4-80GB") < text.index("(.*[ -])?A100")
