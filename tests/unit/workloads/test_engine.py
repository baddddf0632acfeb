"""engine: the engine of a process, by its programs and libraries, never by a word in a path."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from exporter.workloads.engine import ENGINES, SERVING, engine_by_libraries, engine_by_programs

SHELL = (("/bin/bash",), "/usr/bin/bash")
INIT = (("/sbin/init",), "/usr/lib/systemd/systemd")
SPAWNED = (
    "/usr/bin/python3",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=9, pipe_handle=11)",
    "--multiprocessing-fork",
)
PYTHON = "/usr/bin/python3.12"
LIBTORCH = "/usr/local/lib/python3.12/dist-packages/torch/lib/libtorch_cuda.so"
VLLM_KERNELS = "/usr/local/lib/python3.12/dist-packages/vllm/_C.abi3.so"
TRITON_CACHE = "/root/.triton/cache/3f0c/__triton_launcher.cpython-312-x86_64-linux-gnu.so"


Programs = Sequence[tuple[Sequence[str], str]]


def engine_of(programs: Programs, libraries: Collection[str] = (), title_prefix: str = "") -> str:
    """As the registry calls it."""
    own = programs[0][0] if programs else ()
    return engine_by_programs(programs, title_prefix) or engine_by_libraries(own, libraries)


def run(line: str, path: str = PYTHON, *above: tuple[tuple[str, ...], str], libraries: tuple[str, ...] = ()) -> str:
    """The engine of a process that a shell has started with this line. above: its ancestors, the nearest first."""
    return engine_of([(tuple(line.split()), path), *(above or (SHELL,)), INIT], libraries)


class TestOwnProgram:
    """A command line, or a title that replaced it."""

    @pytest.mark.parametrize(
        ("line", "engine"),
        [
            ("/usr/bin/python3 /usr/local/bin/vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2", "vllm"),
            ("python3 -m vllm.entrypoints.openai.api_server --model facebook/opt-125m", "vllm"),
            ("/opt/venv/bin/python -u -X faulthandler -W ignore -m vllm.entrypoints.openai.api_server", "vllm"),
            ("python3.11 -um vllm.entrypoints.api_server", "vllm"),
            ("VLLM::EngineCore", "vllm"),
            ("VLLM::EngineCore_DP0", "vllm"),
            ("VLLM::Worker_TP0", "vllm"),
            ("VLLM::Worker_PP0_TP1_EP1", "vllm"),
            ("VLLM::APIServer_0", "vllm"),
            ("python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2", "sglang"),
            ("/usr/bin/python3 /usr/local/bin/sglang serve --model-path Qwen/Qwen3-8B", "sglang"),
            ("sglang::scheduler", "sglang"),
            ("sglang::scheduler_DP0_TP1_EP1", "sglang"),
            ("sglang::detokenizer", "sglang"),
            ("/usr/src/.venv/bin/python /usr/src/.venv/bin/text-generation-server serve bigscience/bloom-560m", "tgi"),
            ("python -m text_generation_server.cli serve gpt2", "tgi"),
            ("python /srv/train.py --epochs 3", ""),
        ],
    )
    def test_engine_of_a_python_program(self, line: str, engine: str) -> None:
        """vLLM 0.6 to 0.11, SGLang 0.4 and 0.5, Text Generation Inference 2 and 3."""
        assert run(line) == engine

    @pytest.mark.parametrize(
        ("line", "path", "engine"),
        [
            ("tritonserver --model-repository=/models", "/opt/tritonserver/bin/tritonserver", "triton"),
            ("/opt/tritonserver/bin/tritonserver --model-store /m", "", "triton"),
            (
                "/opt/tritonserver/backends/python/triton_python_backend_stub /models/post/1/model.py"
                " triton_python_backend_shm_region_4cba 1048576 1048576 1 /opt/tritonserver/backends/python 336 post_0_5 DEFAULT",
                "/opt/tritonserver/backends/python/triton_python_backend_stub",
                "triton",
            ),
            ("text-generation-launcher --model-id gpt2", "/usr/local/bin/text-generation-launcher", "tgi"),
        ],
    )
    def test_engine_of_a_program_that_is_not_python(self, line: str, path: str, engine: str) -> None:
        """By the executable, or by the name in the command line where that cannot be read."""
        assert run(line, path) == engine

    def test_executable_is_enough(self) -> None:
        """The command line is unreadable, or overwritten."""
        assert engine_of([((), "/opt/tritonserver/bin/tritonserver (deleted)"), SHELL]) == "triton"

    def test_prefix_of_titles_can_be_changed(self) -> None:
        """VLLM_PROCESS_NAME_PREFIX=llama: with that in the environment both prefixes count, else only vLLM's own."""
        line = ((("llama::EngineCore",), PYTHON), SHELL)

        assert (engine_of(line, (), "llama"), engine_of(line)) == ("vllm", "")

    def test_every_engine_but_pytorch_serves(self) -> None:
        assert set(ENGINES) - set(SERVING) == {"pytorch"}


class TestTraps:
    """Words that are no sign of an engine."""

    @pytest.mark.parametrize(
        ("line", "path"),
        [
            ("vim vllm.txt", "/usr/bin/vim.basic"),
            ("grep -r vllm /var/log", "/usr/bin/grep"),
            ("less VLLM::EngineCore", "/usr/bin/less"),
            ("tail -f /var/log/tritonserver", "/usr/bin/tail"),
            ("bash /opt/vllm", "/usr/bin/bash"),
            ("python3 sglang_client.py --url http://gpu7:30000", PYTHON),
            ("python3 /home/me/vllm/benchmark.py", PYTHON),
            ("python3 benchmark.py vllm serve", PYTHON),
            ("python3 -m vllm_trainer.main", PYTHON),
            ("python3 -m pytest tests/sglang", PYTHON),
            ("python3 -c import_vllm vllm", PYTHON),
            ("python3 -W vllm train.py", PYTHON),
            ("python3 - vllm", PYTHON),
            ("python3 --version vllm", PYTHON),
            ("python3", PYTHON),
            ("MYVLLM::EngineCore", PYTHON),
            ("VLLM::", PYTHON),
            ("sglang::", PYTHON),
        ],
    )
    def test_similar_command_lines_are_no_engine(self, line: str, path: str) -> None:
        """Programs that read, edit or call an engine, or have a similar name."""
        assert run(line, path) == ""

    def test_compiler_of_the_same_name_is_not_the_server(self) -> None:
        """Triton compiles kernels into a cache, and PyTorch maps them."""
        assert run("python3 train.py", libraries=(TRITON_CACHE,)) == ""
        assert run("python3 train.py", libraries=(TRITON_CACHE, LIBTORCH)) == "pytorch"

    def test_training_that_maps_kernels_of_an_engine_is_not_that_engine(self) -> None:
        """Reinforcement learning imports vLLM beside its own steps; the engine that it starts has a title."""
        assert run("ray::WorkerDict.update_actor", libraries=(VLLM_KERNELS, LIBTORCH)) == "pytorch"

    def test_unreadable_process_has_no_engine(self) -> None:
        """It has ended, or belongs to another user."""
        assert engine_of([]) == engine_of([((), "")]) == ""


class TestAncestorsAndLibraries:
    def test_spawned_worker_has_the_engine_of_its_parent(self) -> None:
        """Before it sets its title, the command line of multiprocessing shows nothing."""
        parent = (("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "gpt2"), PYTHON)

        assert engine_of([(SPAWNED, PYTHON), parent, SHELL]) == "vllm"
        assert engine_of([(SPAWNED, PYTHON), (("VLLM::EngineCore",), PYTHON)], (LIBTORCH,)) == "vllm"

    def test_nearest_program_decides(self) -> None:
        """An engine in the Python backend of another one."""
        stub = (("/opt/tritonserver/backends/python/triton_python_backend_stub", "/models/vllm/1/model.py"), "")

        assert run("VLLM::EngineCore", PYTHON, stub, (("tritonserver",), "")) == "vllm"
        assert run("/opt/trtllm/bin/trtllmExecutorWorker", "", (("tritonserver",), "")) == "triton"

    def test_ancestors_are_read_only_as_far_as_needed(self) -> None:
        """Each of them is three files of /proc."""
        parents = iter([(SPAWNED, PYTHON), (("VLLM::EngineCore",), PYTHON), SHELL, INIT])

        assert engine_by_programs(parents) == "vllm"
        assert list(parents) == [SHELL, INIT]

    def test_workers_of_torchrun_are_pytorch(self) -> None:
        """Under each of its names."""
        for line in (
            "/usr/bin/python3 /usr/local/bin/torchrun --nproc-per-node=8 train.py",
            "python -m torch.distributed.run --nproc-per-node=8 train.py",
            "python -m torch.distributed.launch train.py",
        ):
            assert run("/usr/bin/python3 -u train.py", PYTHON, (tuple(line.split()), PYTHON)) == "pytorch"

    def test_engine_that_torchrun_starts_is_that_engine(self) -> None:
        """Its own command line is nearer."""
        torchrun = (("/usr/bin/python3", "/usr/local/bin/torchrun", "-m", "sglang.launch_server"), PYTHON)

        assert run("python3 -m sglang.launch_server", PYTHON, torchrun) == "sglang"

    @pytest.mark.parametrize("name", ["libtorch_cuda.so", "libtorch.so", "libtorch_python.so", "libtorch_cpu.so"])
    def test_libtorch_is_pytorch(self, name: str) -> None:
        """Without another sign."""
        assert run("python3 train.py", libraries=(f"/opt/torch/lib/{name}",)) == "pytorch"

    def test_similar_library_names_are_not_pytorch(self) -> None:
        """Another project's library, and a folder."""
        assert run("python3 x.py", libraries=("/opt/libtorch_client.so", "/opt/libtorch.so/libx.so")) == ""

    def test_ray_worker_needs_the_kernels_of_vllm_as_well(self) -> None:
        """Other programs may have that class name too."""
        line = "ray::RayWorkerWrapper.execute_model_ray"

        assert run(line, libraries=(VLLM_KERNELS, LIBTORCH)) == "vllm"
        assert run(line, libraries=(LIBTORCH,)) == "pytorch"
