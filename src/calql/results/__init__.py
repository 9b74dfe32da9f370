"""Results out: metrics on disk, their summary, plots and the report, and what is shown while a run goes on.

`calql.results.report` and `calql.results.plots` are imported by name: they load matplotlib, the rest does not.
"""

from calql.results.loggers import Sink, make_sinks
from calql.results.metrics import MetricsLog, Row, read_rows
from calql.results.progress import Display, Progress, Silent
from calql.results.runs import RecordedRun, read_run, read_runs
from calql.results.summary import Summary, summarise
from calql.results.table import result_table

__all__ = [
    "Display",
    "MetricsLog",
    "Progress",
    "RecordedRun",
    "Row",
    "Silent",
    "Sink",
    "Summary",
    "make_sinks",
    "read_rows",
    "read_run",
    "read_runs",
    "result_table",
    "summarise",
]
