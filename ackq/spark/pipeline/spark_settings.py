"""Check the settings of a Spark session, whose mistakes Spark reports in pages."""

from __future__ import annotations

import re

from ackq.spark.pipeline.section import Section, nearest

#: How a master begins, or what it is.
_MASTER = re.compile(
    r"local(\[(\*|\d+)(, ?\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+", re.ASCII
)
_MASTERS = ("local", "local[2]", "local[*]", "yarn", "spark://HOST:7077", "k8s://https://HOST")
#: Java takes no other form of these sizes.
_SIZE = re.compile(r"[1-9]\d*[kmgt]", re.ASCII | re.IGNORECASE)
_SIZES = ("spark.driver.memory", "spark.executor.memory")
_PREFIX = "spark."


def spark_settings(section: Section) -> dict[str, str]:
    """Return the settings in a section.

    Raises:
        PipelineConfigError: a name is none of Spark, or Spark would not start with a value.
    """
    settings = section.rest()
    for name, value in settings.items():
        if not name.startswith(_PREFIX):
            section.wrong(name, f'is no setting of Spark: write "{_PREFIX}{name}"')
        if name == "spark.master" and _MASTER.fullmatch(value) is None:
            section.wrong(name, f"{value!r} is no master; {nearest(value, _MASTERS)}")
        if name in _SIZES and _SIZE.fullmatch(value) is None:
            section.wrong(name, f"must be a number with k, m, g or t, such as '2g', not {value!r}")
    return settings
