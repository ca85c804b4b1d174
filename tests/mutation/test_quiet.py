"""Quiet mutants of each kind, and no others."""

from .places import ROOT
from .quiet import _in_functions, _of_constants

SOURCE = """
MAX_WAIT = 5.0  # not a time by its name or comment
#: Seconds until it ends.
LIMIT = 0.5
#: Seconds between two looks.
PAUSE = 0.1


class Client:
    def close(self, wait=1.0, force=False, name="x"):
        with self._lock:
            with suppress(OSError, ValueError):
                self._socket.close(timeout=2)
        try:
            time.sleep(wait)
        except (KeyError, ValueError):
            return LIMIT
        except Exception:
            pass
        try:
            return int(name)
        except ValueError:
            return 0
"""


def test_a_mutant_is_made_of_each_quiet_statement() -> None:
    path = ROOT / "ackq" / "made_up.py"
    found = [
        (function.package, function.before, function.after)
        for function in _in_functions(path, SOURCE, {"_lock"})
    ]
    assert sorted(found) == [
        ("default", "1.0", "10.0"),
        ("default", "False", "True"),
        ("except", "except (KeyError, ValueError)", "except (KeyError,)"),
        ("except", "except (KeyError, ValueError)", "except (ValueError,)"),
        ("except", "except (KeyError, ValueError)", "except Exception"),
        ("except", "except Exception", "except ()"),
        ("except", "except Exception", "except BaseException"),
        ("except", "except ValueError", "except ()"),
        ("lock", "with self._lock:", "with suppress(OSError, ValueError):"),
        ("sleep", "time.sleep(wait)", "pass"),
        ("suppress", "suppress(OSError, ValueError)", "suppress(OSError)"),
        ("suppress", "suppress(OSError, ValueError)", "suppress(ValueError)"),
        ("suppress", "with suppress(OSError, ValueError):", "self._socket.close(timeout=2)"),
        ("timeout", "2", "20"),
    ]


def test_a_constant_that_is_a_time_is_shown_to_the_tests_of_its_uses() -> None:
    path = ROOT / "ackq" / "embedded" / "server.py"
    found = {
        constant.before: constant.place
        for constant in _of_constants(path, path.read_text(), {path: path.read_text()})
    }
    assert found.keys() == {"START_TIMEOUT = 10.0", "STOP_TIMEOUT = 10.0"}
    assert found["STOP_TIMEOUT = 10.0"].startswith("ackq/embedded/server.py: Server.stop+")
    assert [constant.before for constant in _of_constants(path, SOURCE, {})] == ["LIMIT = 0.5"]
