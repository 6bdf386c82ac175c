"""The metadata image: one immutable value per committed batch, made of one part per concern."""

from kavka.metadata.image.cluster import BrokerRegistration as BrokerRegistration
from kavka.metadata.image.cluster import ClusterImage as ClusterImage
from kavka.metadata.image.cluster import ControllerRegistration as ControllerRegistration
from kavka.metadata.image.configs import ConfigResource as ConfigResource
from kavka.metadata.image.configs import ConfigsImage as ConfigsImage
from kavka.metadata.image.configs import ResourceType as ResourceType
from kavka.metadata.image.features import FeaturesImage as FeaturesImage
from kavka.metadata.image.metadata import EMPTY as EMPTY
from kavka.metadata.image.metadata import MetadataImage as MetadataImage
from kavka.metadata.image.topics import PartitionImage as PartitionImage
from kavka.metadata.image.topics import TopicImage as TopicImage
from kavka.metadata.image.topics import TopicsImage as TopicsImage
