"""Topics that can be replayed: one order of messages, read by many, each at its own place."""

from ackq.aio.topic import AsyncTopic
from ackq.protocol.topic_spec import TopicConfig
from ackq.protocol.topic_values import Batch, TopicMessage
from ackq.sync.topic import Topic

__all__ = ["AsyncTopic", "Batch", "Topic", "TopicConfig", "TopicMessage"]
