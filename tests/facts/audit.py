"""The facts of audit.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "audit",
    calls=(
        (0,),
        (1,),
    ),
    changes_nothing=True,
    operation=lambda: inspection.audit(SPEC, True),
    replies=[[*[[b"none", 0]] * 11, [1, 0, 0, 0]]],
    passes={"repair": [1]},
    fewest=1,
    named_arguments="some",
    mistakes=r"""
test_audit.test_an_expiry_is_reported_and_removed_if_asked
  mends without being asked
  - if expires and ARGV[1] == '1' then
  + if expires then
""",
)


@FACTS.worst("1,000,000 in every place")
def audit_deep(scene: Scene) -> Act:
    in_every_place(scene, scene.many(1_000_000))
    return scene.queue().audit
