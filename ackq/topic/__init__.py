"""Topics: messages in one order, which consumers read, and replay, at their own positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackq.late_names import late_names

if TYPE_CHECKING:
    from ackq.topic.client import Topic
    from ackq.topic.client_async import AsyncTopic
    from ackq.topic.messages import Batch, TopicMessage
    from ackq.topic.spec import TopicConfig
    from ackq.topic.staging_client import TopicStaging
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "client": "Topic",
            "client_async": "AsyncTopic",
            "messages": "Batch TopicMessage",
            "spec": "TopicConfig",
            "staging_client": "TopicStaging",
        },
    )

__all__ = ["AsyncTopic", "Batch", "Topic", "TopicConfig", "TopicMessage", "TopicStaging"]
