"""`TopicStaging`: rows for a topic that become visible with a commit. Blocking."""

from __future__ import annotations

from typing import Any

import redis

from ackq.core.io.outside import SYSTEM
from ackq.staging.client import StagingBase
from ackq.staging.keys import StagingKeys
from ackq.staging.operations import Mover, StagingSpec
from ackq.topic import staged_rows as topic_staged
from ackq.topic.keys import TopicKeys
from ackq.topic.spec import TopicConfig, TopicSpec


class TopicStaging(StagingBase):
    """Rows for the topic ``name``. They get their indexes after the commit, chunk by chunk."""

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        writer: str,
        **settings: Any,
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: as in `Staging`.
            name: name of the topic. In a cluster it needs a hash tag.
            writer: as in `Staging`.
            settings: ``max_age`` and ``max_messages`` as in `ackq.topic.Topic`.

        Raises:
            QueueNameError: the topic's name cannot be used.
            ConfigurationError: the writer's name or a setting cannot be used.
        """
        self._spec = TopicSpec(name, TopicKeys.of(name), TopicConfig(**settings), outside=SYSTEM)
        keys = StagingKeys.of_topic(name, topic_staged.settings_suffix(self._spec.config))
        self._staging = StagingSpec(f"topic {name!r}", keys, writer)
        super().__init__(client, name)

    def _mover(self) -> Mover:
        return lambda name: topic_staged.move(self._spec, self._staging.keys, name)
