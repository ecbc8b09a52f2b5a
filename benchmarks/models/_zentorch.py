"""AMD's zentorch as a peer: a backend of torch.compile, on torch's own threads."""

from benchmarks import _machine
from benchmarks._timing import Around, Runner
from benchmarks.models import _compiled, _peers
from benchmarks.models._job import Job


def missing() -> str:
    """Why it cannot run here, or ""."""
    if "avx512f" not in _machine.features():
        return "zentorch needs AVX-512, which this CPU does not have"
    return _peers.missing("zentorch")


def note() -> str:
    """How its models are made."""
    return f'zentorch: {_peers.versions("zentorch")}; torch.compile(backend="zentorch")'


def prepare(job: Job, within: Around) -> Runner:
    """Compiles `job`; the first calls, which compile, are made here."""
    import zentorch  # noqa: F401

    return _compiled.prepare(job, "zentorch", within)
