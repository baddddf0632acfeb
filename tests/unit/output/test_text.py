"""text: the exposition formats, by hand and read back by prometheus-client's own parsers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric as ClientFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter import catalog
from exporter.model import Exemplar, Family, Histogram, Identity, Snapshot
from exporter.output.negotiation import Format
from exporter.output.text import escape_help, escape_label, render
from tests.support.records import TRAINER, at, histogram_of, point, snapshot_of

COMMON = 'node="gpu7",rank="3",container="0123456789ab",namespace="",pod=""'
FORMATS = pytest.mark.parametrize("fmt", [Format.TEXT, Format.OPENMETRICS], ids=lambda fmt: fmt.name)
PARSERS: dict[Format, Callable[[str], Iterable[ClientFamily]]] = {
    Format.TEXT: parse_text,
    Format.OPENMETRICS: parse_openmetrics,
}


def rendered(snapshot: Snapshot, fmt: Format = Format.TEXT) -> str:
    """The whole exposition, as a client gets it."""
    return "".join(render(snapshot, fmt)) + ("# EOF\n" if fmt is Format.OPENMETRICS else "")


def samples(text: str, fmt: Format = Format.TEXT) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, own labels) -> value, without the common labels."""
    return {
        (
            one.name,
            tuple((key, value) for key, value in one.labels.items() if key not in catalog.COMMON_LABELS),
        ): one.value
        for family in PARSERS[fmt](text)
        for one in family.samples
    }


CALLS = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
DURATIONS = snapshot_of(
    catalog.cuda.OPERATION_DURATION, point(histogram_of({88: 2, 89: 3, 337: 1}, 1.25), "runtime", "cudaMalloc")
)
MEMORY = snapshot_of(catalog.allocator.LIVE, point(600))
COMMUNICATOR = snapshot_of(catalog.nccl.COMMUNICATOR_INFO, point(1, "0", "00000000deadbeef", "3", "8"))
EVERYTHING = Snapshot(at(0.0), tuple(s.families[0] for s in (DURATIONS, CALLS, MEMORY, COMMUNICATOR)))


class TestText:
    """Prometheus text 0.0.4."""

    def test_counter_is_written_with_help_and_type(self) -> None:
        """Name, five common labels, own labels, value."""
        assert rendered(CALLS).splitlines() == [
            "# HELP gpustall_cuda_operations_total CUDA calls that returned, including driver calls made by a runtime call, "
            "which are not timed separately; where returns are not probed, calls that began.",
            "# TYPE gpustall_cuda_operations_total counter",
            f'gpustall_cuda_operations_total{{{COMMON},api="runtime",operation="cudaMalloc"}} 12',
        ]

    def test_info_is_a_gauge(self) -> None:
        """0.0.4 knows no infos."""
        assert "# TYPE gpustall_nccl_communicator_info gauge\n" in rendered(COMMUNICATOR)

    def test_metric_without_labels_of_its_own_has_the_common_ones(self) -> None:
        """And no stray comma."""
        assert rendered(MEMORY).splitlines()[-1] == f"gpustall_cuda_memory_live_bytes{{{COMMON}}} 600"

    def test_histogram_has_cumulative_buckets_sum_and_count(self) -> None:
        """Two calls at the edge 2^-19 s, three beyond it, one beyond every edge; the count is +Inf's."""
        lines = [line.rsplit(" ", 1) for line in rendered(DURATIONS).splitlines()[2:]]
        values = {name.replace(f'{COMMON},api="runtime",operation="cudaMalloc"', ""): value for name, value in lines}

        name = "gpustall_cuda_operation_duration_seconds"
        edges = ["1.52587890625e-05", "0.0001220703125", "0.0009765625", "0.0078125", "0.03125", "0.125", "1"]
        assert values == {
            f'{name}_bucket{{,le="1.9073486328125e-06"}}': "2",
            **{f'{name}_bucket{{,le="{edge}"}}': "5" for edge in edges},
            f'{name}_bucket{{,le="+Inf"}}': "6",
            f"{name}_sum{{}}": "1.25",
            f"{name}_count{{}}": "6",
        }

    def test_snapshot_of_nothing_is_nothing(self) -> None:
        """No HELP for a metric without series."""
        assert rendered(Snapshot(at(0.0), ())) == ""

    def test_great_counts_keep_every_digit(self) -> None:
        """Beyond 2^53 the text is still exact."""
        snapshot = snapshot_of(catalog.memcpy.BYTES, point(2**64 - 1, "h2d"))

        assert rendered(snapshot).endswith(" 18446744073709551615\n")


class TestOpenMetrics:
    """OpenMetrics 1.0."""

    def test_counter_s_family_has_no_suffix(self) -> None:
        """Its samples have."""
        text = rendered(CALLS, Format.OPENMETRICS)

        assert "# TYPE gpustall_cuda_operations counter\n" in text
        assert "\ngpustall_cuda_operations_total{" in text

    def test_info_is_an_info(self) -> None:
        """Family without the suffix, sample with it."""
        text = rendered(COMMUNICATOR, Format.OPENMETRICS)

        assert "# TYPE gpustall_nccl_communicator info\n" in text
        assert "\ngpustall_nccl_communicator_info{" in text

    def test_le_is_a_float(self) -> None:
        """1.0, not 1: the canonical form."""
        text = rendered(DURATIONS, Format.OPENMETRICS)

        assert re.findall(r'le="(.*?)"', text)[-2:] == ["1.0", "+Inf"]


class TestExemplars:
    """One measured call, in OpenMetrics only."""

    SNAPSHOT = snapshot_of(
        catalog.cuda.OPERATION_DURATION,
        point(
            Histogram(
                histogram_of({220: 4}).counts,
                1.0,
                Exemplar((("pid", "4026"), ("tid", "4031")), 0.25, 1790000000125999999),
            ),
            "runtime",
            "cudaMalloc",
        ),
    )

    def test_bucket_that_counts_the_call_has_it(self) -> None:
        """0.25 s lies between 2**-3 s and 1 s; the time is in seconds."""
        lines = rendered(self.SNAPSHOT, Format.OPENMETRICS).splitlines()

        (line,) = (line for line in lines if " # " in line)
        assert 'le="1.0"} 4 # {pid="4026",tid="4031"} 0.25 1790000000.126' in line

    def test_older_text_format_has_none(self) -> None:
        """Its parsers would refuse the line."""
        assert " # " not in rendered(self.SNAPSHOT).partition("TYPE")[2]

    def test_parser_that_is_not_ours_reads_it(self) -> None:
        """Labels, value and time."""
        (family,) = parse_openmetrics(rendered(self.SNAPSHOT, Format.OPENMETRICS))

        (exemplar,) = (sample.exemplar for sample in family.samples if sample.exemplar)
        assert (exemplar.labels, exemplar.value) == ({"pid": "4026", "tid": "4031"}, 0.25)
        assert float(exemplar.timestamp) == pytest.approx(1790000000.126, abs=1e-3)


class TestTraces:
    """The episode that a counter grows by, in OpenMetrics only."""

    EPISODE = Exemplar(
        (("trace_id", "0af7651916cd43dd8448eb211c80319c"), ("span_id", "0af7651916cd43dd")), 0.5, 1790000000125999999
    )
    FAMILY = Family(catalog.sched.LOST, (point(1.5, "lock"), point(2.5, "irq")), {(TRAINER, ("lock",)): EPISODE})
    SNAPSHOT = Snapshot(at(0.0), (FAMILY,))

    def test_counter_has_it_behind_its_value(self) -> None:
        """The other series has none."""
        lines = rendered(self.SNAPSHOT, Format.OPENMETRICS).splitlines()

        assert [line for line in lines if line.startswith("gpustall_lost_seconds_total")] == [
            f'gpustall_lost_seconds_total{{{COMMON},cause="lock"}} 1.5'
            ' # {trace_id="0af7651916cd43dd8448eb211c80319c",span_id="0af7651916cd43dd"} 0.5 1790000000.126',
            f'gpustall_lost_seconds_total{{{COMMON},cause="irq"}} 2.5',
        ]

    def test_older_format_knows_no_exemplars(self) -> None:
        """It would take them for a timestamp."""
        assert " # " not in rendered(self.SNAPSHOT, Format.TEXT)

    def test_parser_reads_it_back(self) -> None:
        """Which refuses labels of more than 128 characters."""
        (family,) = parse_openmetrics(rendered(self.SNAPSHOT, Format.OPENMETRICS))

        (exemplar,) = (sample.exemplar for sample in family.samples if sample.exemplar)
        assert (exemplar.labels, exemplar.value) == (dict(self.EPISODE.labels), 0.5)


class TestReadBack:
    """A parser that is not ours finds what was put in."""

    @FORMATS
    def test_every_kind_is_read_back(self, fmt: Format) -> None:
        """Names, labels and values."""
        malloc = (("api", "runtime"), ("operation", "cudaMalloc"))
        found = samples(rendered(EVERYTHING, fmt), fmt)

        assert found["gpustall_cuda_operations_total", malloc] == 12
        assert found["gpustall_cuda_memory_live_bytes", ()] == 600
        assert found["gpustall_cuda_operation_duration_seconds_sum", malloc] == 1.25
        assert found["gpustall_cuda_operation_duration_seconds_count", malloc] == 6
        assert found["gpustall_cuda_operation_duration_seconds_bucket", (*malloc, ("le", "+Inf"))] == 6
        info = (("communicator", "0"), ("hash", "00000000deadbeef"), ("communicator_rank", "3"), ("nranks", "8"))
        assert found["gpustall_nccl_communicator_info", info] == 1

    @FORMATS
    def test_types_and_help_are_read_back(self, fmt: Format) -> None:
        """An info is a gauge in 0.0.4; the catalogue's sentence is the help."""
        families = {family.name: family for family in PARSERS[fmt](rendered(EVERYTHING, fmt))}

        assert {name: family.type for name, family in families.items()} == {
            "gpustall_cuda_operation_duration_seconds": "histogram",
            "gpustall_cuda_operations": "counter",
            "gpustall_cuda_memory_live_bytes": "gauge",
            **(
                {"gpustall_nccl_communicator_info": "gauge"}
                if fmt is Format.TEXT
                else {"gpustall_nccl_communicator": "info"}
            ),
        }
        assert families["gpustall_cuda_memory_live_bytes"].documentation == catalog.allocator.LIVE.help

    @FORMATS
    def test_all_five_common_labels_are_always_there(self, fmt: Format) -> None:
        """Empty ones included, on every sample: an omitted `pod` becomes the exporter's own under honor_labels."""
        snapshot = Snapshot(at(0.0), tuple(Family(f.metric, (point_without_a_name(f),)) for f in EVERYTHING.families))

        labels = [one.labels for family in PARSERS[fmt](rendered(snapshot, fmt)) for one in family.samples]
        assert all({"node", "rank", "container", "namespace", "pod"} <= one.keys() for one in labels)
        assert rendered(snapshot, fmt).count('pod=""') == len(labels)

    @FORMATS
    @settings(max_examples=50, deadline=None)
    @given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
    def test_any_identity_is_read_back(self, fmt: Format, name: str) -> None:
        """Quotes, backslashes, braces, and what looks like a label."""
        identity = Identity(node=name, container=f'\\"{name}\\', pod='",le="1"} 7 #')
        text = rendered(snapshot_of(catalog.allocator.LIVE, point(1, identity=identity)), fmt)

        ((sample,),) = [family.samples for family in PARSERS[fmt](text)]
        assert (sample.labels["node"], sample.labels["container"]) == (identity.node, identity.container)
        assert (sample.labels["pod"], sample.value) == ('",le="1"} 7 #', 1)

    @FORMATS
    def test_percent_signs_in_labels_are_no_format(self, fmt: Format) -> None:
        """Histograms are written by a %-template."""
        identity = Identity(node="%d%s%%")
        histogram = histogram_of({1: 1})
        text = rendered(
            snapshot_of(catalog.cuda.OPERATION_DURATION, point(histogram, "a", "%r", identity=identity)), fmt
        )

        assert 'node="%d%s%%"' in text
        assert 'operation="%r"' in text


def point_without_a_name(family: Family):  # type: ignore[no-untyped-def]
    """The family's first series, of a process of which nothing is known."""
    return point(family.points[0].value, *family.points[0].labels, identity=Identity())


class TestEscaping:
    """What may not stand as it is."""

    @pytest.mark.parametrize(
        ("value", "written"),
        [("plain", "plain"), ('a"b', r"a\"b"), ("a\\b", r"a\\b"), ("a\nb", r"a\nb"), (r"\n", r"\\n")],
    )
    def test_label(self, value: str, written: str) -> None:
        """Backslash, quote, newline; the backslash first."""
        assert escape_label(value) == written

    @pytest.mark.parametrize(
        ("fmt", "written"),
        [(Format.TEXT, r'a\\b\n"c"'), (Format.OPENMETRICS, r"a\\b\n\"c\"")],
        ids=["text", "openmetrics"],
    )
    def test_help(self, fmt: Format, written: str) -> None:
        """OpenMetrics escapes quotes as well."""
        assert escape_help('a\\b\n"c"', fmt) == written


class TestLint:
    """The rules of promlint, which promtool applies, on every metric of the catalogue."""

    @pytest.mark.parametrize("metric", catalog.METRICS, ids=lambda metric: metric.name)
    def test_suffix_says_the_type(self, metric: catalog.Metric) -> None:
        """_total on counters and on nothing else; _bucket, _sum, _count belong to histograms; _info to infos."""
        assert metric.name.endswith("_total") == (metric.kind is catalog.Kind.COUNTER)
        assert metric.name.endswith("_info") == (metric.kind is catalog.Kind.INFO)
        assert not metric.name.endswith(("_bucket", "_sum", "_count", "_created"))

    @pytest.mark.parametrize("metric", catalog.METRICS, ids=lambda metric: metric.name)
    def test_name_is_in_snake_case_and_base_units(self, metric: catalog.Metric) -> None:
        """No camel case, no milliseconds, no type in the name."""
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", metric.name)
        words = set(metric.name.split("_"))
        assert not words & {
            "ms",
            "us",
            "ns",
            "milliseconds",
            "minutes",
            "kb",
            "mb",
            "bits",
            "gauge",
            "counter",
            "histogram",
        }

    @pytest.mark.parametrize("value", [histogram_of({}), histogram_of({0: 1}, 0.5)], ids=["empty", "one"])
    def test_histogram_has_every_bucket_or_is_not_there(self, value: Histogram) -> None:
        """Eight edges and +Inf."""
        text = rendered(snapshot_of(catalog.cuda.OPERATION_DURATION, point(value, "runtime", "cudaFree")))

        assert text.count("_bucket{") == 9

    def test_series_of_one_family_stand_together(self) -> None:
        """One HELP for two ranks."""
        other = Identity(node="gpu7", rank="4")
        text = rendered(snapshot_of(catalog.allocator.LIVE, point(1, identity=TRAINER), point(2, identity=other)))

        assert text.count("# HELP") == text.count("# TYPE") == 1


counts = st.one_of(st.integers(0, 2**64), st.integers(2**53 - 8, 2**53 + 8), st.integers(2**63 - 8, 2**63 + 8))


class TestLargeCounts:
    @FORMATS
    @given(counts)
    def test_count_is_written_in_full(self, fmt: Format, count: int) -> None:
        """An exporter that has run for years counts beyond what a float holds exactly."""
        snapshot = snapshot_of(catalog.cuda.OPERATIONS, point(count, "runtime", "cudaMalloc"))

        assert f" {count}\n" in rendered(snapshot, fmt)
