import pytest

pytest.register_assert_rewrite("tests.queue.model.machine")
