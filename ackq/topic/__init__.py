"""Topics: messages in one order, which consumers read, and replay, at their own positions."""

from ackq.topic.client import Topic
from ackq.topic.client_async import AsyncTopic
from ackq.topic.messages import Batch, TopicMessage
from ackq.topic.spec import TopicConfig
from ackq.topic.staging_client import TopicStaging

__all__ = ["AsyncTopic", "Batch", "Topic", "TopicConfig", "TopicMessage", "TopicStaging"]
