"""How Sphinx builds the site: ``make docs``."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "ackq"
author = "the ackq authors"
copyright = "2026, the ackq authors"
release = version_of("ackq")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "_mutation"]
#: Headings that a link can name.
myst_heading_anchors = 3
#: Docstrings put names in single backticks; those that the reference lists become links.
default_role = "py:obj"
autodoc_member_order = "bysource"
#: The settings of a class are documented where they are passed.
autoclass_content = "both"
autodoc_typehints = "signature"
#: Large, or of no use to the reference besides being imported.
autodoc_mock_imports = ["pyspark", "pyarrow", "py4j", "opentelemetry"]
python_use_unqualified_type_names = True
#: Prompts and output are not to be copied.
copybutton_prompt_text = "$ "

html_theme = "furo"
html_title = f"ackq {release}"
html_static_path = ["_static"]
html_logo = html_favicon = "_static/logo.svg"
html_css_files = ["ackq.css"]
#: Sources are in the repository, so the site does not ship them again.
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/ackq/ackq/",
    "source_branch": "main",
    "source_directory": "docs/",
}
