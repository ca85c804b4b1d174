"""The facts of audit.lua: see `tests.facts.facts`."""

from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "audit",
    calls=(
        (0,),
        (1,),
    ),
    changes_nothing=True,
    fewest=1,
    named_arguments="some",
)


@FACTS.worst("1,000,000 in every place")
def audit_deep(scene: Scene) -> Act:
    in_every_place(scene, scene.many(1_000_000))
    return scene.queue().audit
