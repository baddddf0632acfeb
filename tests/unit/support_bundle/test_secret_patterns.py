"""secret_patterns: secrets in any spelling are removed, ordinary text stays."""

from __future__ import annotations

import pytest

from exporter.support_bundle.secret_patterns import without_secrets

MARK = "Zq7mark"
"""Stands in every secret below, and in no result."""

SECRETS = (
    f"python train.py --password {MARK} --epochs 3",
    f"--db-password={MARK}",
    f"--password '{MARK} with spaces' next",
    f"-token {MARK}",
    f"PGPASSWORD={MARK} psql",
    f"MYSQL_PWD={MARK}",
    f"AWS_SECRET_ACCESS_KEY={MARK}/abc+d",
    f"export WANDB_API_KEY='{MARK}'",
    f"OPENAI_API_KEY: {MARK}",
    f'"clientSecret": "{MARK} x"',
    f"{{'password': '{MARK}'}}",
    f"Cookie: a=b; session={MARK}",
    f"set-cookie: {MARK}; Path=/",
    f"Authorization: AWS4-HMAC-SHA256 Credential={MARK}/x, Signature={MARK}",
    f"proxy-authorization: Basic {MARK}",
    f"X-Api-Key: {MARK}",
    f"x-amz-security-token: {MARK}",
    f"hf_abcdefgh{MARK}",
    f"ghp_abcdefgh{MARK} gho_abcdefgh{MARK} github_pat_11ABC_{MARK}",
    f"glpat-abcdefgh{MARK}",
    f"key is AKIA{MARK.upper()}ABCDEFGH1",
    f"xoxb-1234-5678-{MARK}",
    f"sk-proj-abcdefgh{MARK} sk-ant-api03-abcdefgh{MARK} sk-abcdefgh{MARK}123",
    f"nvapi-abcdefgh{MARK}",
    f"AIzaSyabcdefghijk{MARK}",
    f"eyJhbGciOiJ9.eyJ{MARK}.abc-{MARK}",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MARK}\n-----END OPENSSH PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{MARK}\ncut",
    f"postgres://ann:{MARK}@db/x",
    f"https://ann:pa/{MARK}@host/x",
    f"redis://:{MARK}@cache:6379",
    f"https://h/x?sig={MARK}&b=1 https://h/x?token={MARK}",
    f"Bearer {MARK} and token: {MARK}",
    f"curl -u ann:{MARK} http://h",
    f"$6$salt${MARK}abc",
    f"/scratch/{MARK}/venv/lib/libcudart.so.12",
    f"opened '/data/{MARK}/x.py' and /mnt/{MARK}/b:/mnt/{MARK}/c",
    f"/proc/4032/root/data/{MARK}/libnccl.so.2",
    f"/var/lib/docker/volumes/{MARK}/_data",
    f"/home/ann/{MARK}/train.py",
    f"/opt/{MARK}/lib/libcuda.so.1",
    f"LD_LIBRARY_PATH=/a/{MARK}:/b/{MARK}",
)


class TestSecrets:
    @pytest.mark.parametrize("text", SECRETS)
    def test_secret_is_removed(self, text: str) -> None:
        found = without_secrets(text)

        assert MARK.lower() not in found.lower()
        assert "[" in found

    def test_forty_hexadecimal_digits_are_a_key(self) -> None:
        """Sums of 64 digits and ids of 32 are none."""
        text = f"{'a1' * 20} {'a1' * 32} {'a1' * 16}"

        assert without_secrets(text) == f"[removed] {'a1' * 32} {'a1' * 16}"

    def test_what_stands_around_a_secret_stays(self) -> None:
        assert (
            without_secrets("run --password abc --epochs 3, PGPASSWORD=x psql db")
            == "run --password [removed] --epochs 3, PGPASSWORD=[removed] psql db"
        )

    def test_a_library_can_still_be_recognised(self) -> None:
        path = "/scratch/ann/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"

        assert without_secrets(path) == (
            "/[directory]/[directory]/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
        )

    @pytest.mark.parametrize("piece", ["a.", "-a", "--a ", "curl -x ", "://a", "/a", 'password="', "eyJaaaaaaaaa."])
    def test_megabyte_of_one_piece_is_searched(self, piece: str) -> None:
        """A tenant may write it into a log. A search in quadratic time would run into the time limit of the test."""
        text = piece * ((1 << 20) // len(piece))

        assert len(without_secrets(text)) <= len(text) * len("[removed]")

    @pytest.mark.parametrize(
        "text",
        [
            "GET /metrics and /healthz",
            "/usr/local/cuda-12.4/lib64/libcudart.so.12",
            "/var/lib/gpu-stall-exporter/history.sqlite: at most 64 MiB and 24 h",
            "--orchestrator.token-file /etc/token",
            "author: none; monkey: yes; passed: 3; bypass: on",
            "http://127.0.0.1:4318/v1/metrics: no answer",
            "gpustall_engine_tokens_total 5",
            "12 of 14 checks passed, 3/4 of a CPU",
            "task-1234 was wanted",
        ],
    )
    def test_ordinary_text_stays(self, text: str) -> None:
        assert without_secrets(text) == text
